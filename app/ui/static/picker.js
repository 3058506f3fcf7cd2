const root = element.querySelector(".fv-picker");
const find = (name) => root.querySelector("[data-part=" + name + "]");
const input = find("input"), status = find("status"), previews = find("previews");
const video = find("video"), live = find("live"), empty = find("empty");
const several = root.dataset.several === "yes";
const limit = Number(root.dataset.maxBytes), total = Number(root.dataset.maxTotal);
const most = Number(root.dataset.maxPhotos);
let items = [], camera = null;

const megabytes = (bytes) => (bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0) + " MB";
const say = (words) => { status.textContent = words; };
const bytesOf = (item) => item.data.length * 0.75;
const weigh = (those) => those.reduce((sum, item) => sum + bytesOf(item), 0);
const shown = () => [...document.querySelectorAll(".fv-picker")].filter((each) => each.offsetParent);
// All photos of a tab travel in one call.
const besides = () => shown().reduce((sum, each) => sum + (each === root ? 0 : Number(each.dataset.weight)), 0);

function show() {
  previews.replaceChildren(...items.map((item, place) => {
    const figure = document.createElement("figure");
    const image = document.createElement("img");
    image.src = item.data;
    image.alt = item.name;
    const turn = document.createElement("button");
    turn.type = "button";
    turn.className = "fv-turn";
    turn.textContent = "↻";
    turn.setAttribute("aria-label", "Turn " + item.name + " to the right");
    turn.onclick = () => turned(image, place);
    image.onerror = () => {
      turn.remove();
      image.replaceWith(document.createTextNode("No preview of " + item.name));
    };
    figure.append(image, turn);
    if (several) {
      const remove = document.createElement("button");
      remove.type = "button";
      remove.textContent = "×";
      remove.setAttribute("aria-label", "Remove " + item.name);
      remove.onclick = () => { commit(items.filter((_, other) => other !== place)); find("choose").focus(); };
      figure.append(remove);
    }
    return figure;
  }));
  root.dataset.filled = items.length ? "yes" : "";
  root.dataset.weight = weigh(items);
  find("clear").hidden = !items.length;
}

function turned(image, place) {
  const canvas = document.createElement("canvas");
  canvas.width = image.naturalHeight;
  canvas.height = image.naturalWidth;
  const drawing = canvas.getContext("2d");
  drawing.translate(canvas.width, 0);
  drawing.rotate(Math.PI / 2);
  drawing.drawImage(image, 0, 0);
  const data = canvas.toDataURL("image/jpeg", 0.95);
  commit(items.map((item, other) => (other === place ? { name: item.name, data } : item)));
  previews.querySelectorAll(".fv-turn")[place]?.focus();
}

function commit(next) {
  items = next;
  show();
  const count = items.length;
  say(!count ? "" : several ? count + (count === 1 ? " photo" : " photos") + " ready" : items[0].name + " ready");
  props.value = count ? JSON.stringify(items) : "";
  trigger("picked");
}

const read = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve({ name: file.name || "pasted photo", data: reader.result });
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(file);
});

async function take(files) {
  const chosen = several ? [...files] : [...files].slice(0, 1);
  const large = chosen.find((file) => file.size > limit);
  if (large) return say(large.name + " has " + megabytes(large.size) + "; at most " + megabytes(limit) + " are accepted. Use a smaller copy.");
  if (!chosen.length) return;
  say("Reading…");
  let fresh;
  try { fresh = await Promise.all(chosen.map(read)); }
  catch (error) { return say("The file cannot be read: " + error.message); }
  const next = several ? [...items, ...fresh] : fresh;
  if (next.length > most) return say(next.length + " photos are too many at once; take at most " + most + " and add the rest afterwards.");
  const weight = weigh(next) + besides();
  if (weight > total) return say("Together the photos have " + megabytes(weight) + "; at most " + megabytes(total) + " fit into one go. " + (several ? "Add the rest afterwards." : "Use a smaller copy."));
  commit(next);
}

function stopCamera() {
  if (camera) camera.getTracks().forEach((track) => track.stop());
  camera = null;
  video.srcObject = null;
  live.hidden = true;
  root.dataset.live = "";
}

find("choose").onclick = () => input.click();
input.onchange = () => { take(input.files); input.value = ""; };
find("clear").onclick = () => { commit([]); find("choose").focus(); };
find("camera").onclick = async () => {
  if (!navigator.mediaDevices) return say("The camera works only on this machine or over https.");
  try { camera = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "user", width: { ideal: 1280 } } }); }
  catch (error) { return say("The camera cannot be used: " + error.message); }
  video.srcObject = camera;
  live.hidden = false;
  root.dataset.live = "yes";
  find("snap").focus();
};
find("snap").onclick = () => {
  const canvas = document.createElement("canvas");
  canvas.width = video.videoWidth;
  canvas.height = video.videoHeight;
  canvas.getContext("2d").drawImage(video, 0, 0);
  const shot = { name: "camera.jpg", data: canvas.toDataURL("image/jpeg", 0.95) };
  stopCamera();
  commit(several ? [...items, shot] : [shot]);
  find("choose").focus();
};
find("stop").onclick = () => { stopCamera(); find("camera").focus(); };
// It has no size once its tab is left.
new ResizeObserver(() => { if (camera && !root.offsetParent) stopCamera(); }).observe(root);

root.addEventListener("dragover", (event) => { event.preventDefault(); root.dataset.over = "yes"; });
root.addEventListener("dragleave", () => { root.dataset.over = ""; });
root.addEventListener("drop", (event) => {
  event.preventDefault();
  root.dataset.over = "";
  take(event.dataTransfer.files);
});
document.addEventListener("paste", (event) => {
  const files = [...event.clipboardData.files];
  if (!files.length) return;
  const pickers = shown();
  const focused = document.activeElement && document.activeElement.closest(".fv-picker");
  if (root === (focused || pickers.find((each) => !each.dataset.filled) || pickers[0])) {
    event.preventDefault();
    take(files);
  }
});
const fill = () => {
  items = props.value ? JSON.parse(props.value) : [];
  show();
  say("");
};
watch("value", fill);
// It may have been filled before its tab was opened for the first time.
fill();
