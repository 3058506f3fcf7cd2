// The live camera: one picture at a time goes to the server, the next as soon as it is answered.
// The picture shown is the one that was looked at, so that every box sits on its face.
const root = element.querySelector(".fv-look");
const find = (name) => root.querySelector("[data-part=" + name + "]");
const canvas = find("canvas"), boxes = find("boxes"), said = find("said"), pace = find("pace");
const video = document.createElement("video");
const LARGEST = 1280;
let camera = null, call = null;

const say = (words) => { if (said.textContent !== words) said.textContent = words; };
const rest = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));

function show(running) {
  find("start").hidden = running;
  find("stop").hidden = !running;
  find("stage").hidden = !running;
}

function stop(words = "") {
  camera?.getTracks().forEach((track) => track.stop());
  call?.abort();
  camera = call = video.srcObject = null;
  canvas.width = canvas.height = 0;
  boxes.replaceChildren();
  pace.textContent = "";
  say(words);
  show(false);
}

async function start() {
  if (!navigator.mediaDevices) return say("The camera works only on this machine or over https.");
  say("Starting the camera…");
  let mine;
  try { mine = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment", width: { ideal: LARGEST } } }); }
  catch (error) { return say("The camera cannot be used: " + error.message); }
  stop();
  camera = mine;
  if (document.hidden || !root.offsetParent) return stop();
  mine.getVideoTracks()[0].onended = () => { if (camera === mine) stop("The camera was taken away."); };
  video.muted = video.playsInline = true;
  video.srcObject = mine;
  try {
    await video.play();
    if (camera !== mine) return;
    show(true);
    find("stop").focus();
    while (camera === mine) await look(mine);
  } catch (error) {
    if (camera === mine) stop(error.message);
  }
}

async function look(mine) {
  const began = performance.now();
  const frame = document.createElement("canvas");
  const scale = Math.min(1, LARGEST / Math.max(video.videoWidth, video.videoHeight));
  frame.width = Math.round(video.videoWidth * scale);
  frame.height = Math.round(video.videoHeight * scale);
  frame.getContext("2d").drawImage(video, 0, 0, frame.width, frame.height);
  const form = new FormData();
  form.append("img", await new Promise((done) => frame.toBlob(done, "image/jpeg", 0.9)), "camera.jpg");
  form.append("target_fpir", props.value);
  if (camera !== mine) return;
  call = new AbortController();
  const answer = await fetch("/page/look", { method: "POST", body: form, signal: call.signal });
  const found = await answer.json();
  if (camera !== mine) return;
  if (answer.status === 429 || answer.status === 503) return rest(Number(answer.headers.get("Retry-After")) || 1);
  if (!answer.ok) throw new Error(found.error.message);
  const first = !canvas.width;
  canvas.width = frame.width;
  canvas.height = frame.height;
  canvas.getContext("2d").drawImage(frame, 0, 0);
  boxes.innerHTML = found.boxes;
  say(found.said);
  if (first) root.scrollIntoView({ block: "start" });
  pace.textContent = ((performance.now() - began) / 1000).toFixed(1) + " s a picture";
}

find("start").onclick = start;
find("stop").onclick = () => { stop(); find("start").focus(); };
document.addEventListener("visibilitychange", () => { if (document.hidden && camera) stop("Stopped, because the page was hidden."); });
// It has no size once its tab is left.
new ResizeObserver(() => { if (camera && !root.offsetParent) stop(); }).observe(root);
