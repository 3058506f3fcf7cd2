// Three gaps in how Gradio's client hears from the server, closed between it and the network.
//
// It opens its event stream anew only once it has read that the last one closed. A call that
// reaches the server right after the closing, and is acknowledged before the page has read of it,
// would wait for its answer forever. So the client is shown one stream that never closes, fed by a
// real one whenever a call is open.
//
// It shows the answer of a cancelled call if that comes before the server has heard of the
// cancelling. So such an answer is emptied here, from the moment of cancelling on.
//
// It says only "Error" of a call that was refused. So the reason is put where it looks for one.
{
  const plain = window.fetch;
  const sending = new Set(), open = new Map(), early = new Set(), dropped = new Set();
  let wake = () => {};

  // How many calls are under way, for whoever waits until the page rests.
  const count = () => { document.documentElement.dataset.calls = sending.size + open.size; };
  const joined = (id, fn) => { if (!early.delete(id)) { open.set(id, fn); wake(); } };
  const completed = (id) => { if (!open.delete(id)) early.add(id); count(); };

  function heard(message) {
    const drop = dropped.has(message.event_id);
    if (message.msg === "process_completed") {
      completed(message.event_id);
      return drop ? { ...message, output: {}, success: true } : message;
    }
    return drop || message.msg === "close_stream" ? null : message;
  }

  async function feed(out, call, answer) {
    const bytes = new TextEncoder();
    for (;;) {
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "", closed = false;
      for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
        const parts = (rest + piece.value).split("\n\n");
        rest = parts.pop();
        for (const part of parts) {
          const message = JSON.parse(part.slice(part.indexOf("{")));
          closed ||= message.msg === "close_stream";
          const shown = heard(message);
          if (shown) out.enqueue(bytes.encode("data: " + JSON.stringify(shown) + "\n\n"));
        }
      }
      if (!closed) return out.close();
      while (!open.size) await new Promise((done) => { wake = done; });
      answer = await plain(...call);
      if (!answer.ok) throw new Error("The event stream was refused: " + answer.status);
    }
  }

  // The server may hang up on a call that is too large before the page has read why.
  const unread = (status) => status === 413
    ? "The photos are too large to be sent together. Use smaller copies."
    : "The call did not get through" + (status ? " (status " + status + ")" : "") +
      ". Try again; if it stays, use smaller photos or reload the page.";
  const refused = (words) => new Response(JSON.stringify({ detail: words }), { status: 422 });

  async function join(call) {
    // A call holds whole photos; what it is for stands at its end.
    const one = { fn: /"fn_index":(\d+)/.exec(call[1].body.slice(-300))?.[1], drop: false };
    sending.add(one);
    count();
    try {
      const answer = await plain(...call).catch(() => null);
      const said = await answer?.clone().json().catch(() => ({}));
      if (!answer?.ok) return refused(said?.error?.message ?? unread(answer?.status));
      if (one.drop) dropped.add(said.event_id);
      joined(said.event_id, one.fn);
      return answer;
    } finally {
      sending.delete(one);
      count();
    }
  }

  function cancel(call) {
    const { event_id, fn_index } = JSON.parse(call[1].body);
    if (event_id) dropped.add(event_id);
    // The client may not know yet that the call was taken, or by what name.
    for (const one of sending) one.drop ||= one.fn === String(fn_index);
    for (const [id, fn] of open) if (fn === String(fn_index)) dropped.add(id);
    return plain(...call);
  }

  window.fetch = async (...call) => {
    const address = String(call[0].url ?? call[0]);
    if (address.includes("/gradio_api/queue/join")) return join(call);
    if (address.includes("/gradio_api/cancel")) return cancel(call);
    const answer = await plain(...call);
    if (!answer.ok || !address.includes("/gradio_api/queue/data")) return answer;
    const start = (out) => { feed(out, call, answer).catch((error) => out.error(error)); };
    return new Response(new ReadableStream({ start }), { headers: answer.headers });
  };
}
