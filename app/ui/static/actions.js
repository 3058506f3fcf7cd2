// Buttons within results: a click on [data-act] is an event that carries the button's data and the
// fields of the form around it. The content may change; the listeners are on what stays.
const ask = (target) => {
  const button = target.closest("[data-act]");
  if (!button || button.getAttribute("aria-disabled") === "true") return;
  const form = button.closest("[data-form]");
  const fields = form ? [...form.querySelectorAll("[name]")] : [];
  const missing = button.dataset.needs && fields.find((each) => each.name === button.dataset.needs && !each.value.trim());
  if (missing) {
    missing.setAttribute("aria-invalid", "true");
    missing.focus();
    return;
  }
  trigger("act", { ...button.dataset, ...Object.fromEntries(fields.map((each) => [each.name, each.value])) });
};
element.addEventListener("click", (event) => ask(event.target));
element.addEventListener("keydown", (event) => {
  const inSvg = event.target.closest("g[data-act]");
  if (inSvg && (event.key === "Enter" || event.key === " ")) { event.preventDefault(); ask(inSvg); }
});
// A card and the face it is about light up together.
const light = (event) => {
  const card = event.target.closest?.("[data-lights]");
  element.querySelectorAll("[data-lit]").forEach((each) => delete each.dataset.lit);
  if (!card || event.type === "mouseout" || event.type === "focusout") return;
  element.querySelectorAll(`[data-spot="${card.dataset.lights}"] [data-face="${card.dataset.face}"]`)
    .forEach((each) => { each.dataset.lit = "yes"; });
};
for (const kind of ["mouseover", "mouseout", "focusin", "focusout"]) element.addEventListener(kind, light);
// More of a long list is fetched when its end comes into sight.
const end = new IntersectionObserver((seen) => {
  for (const each of seen) if (each.isIntersecting) { end.unobserve(each.target); ask(each.target); }
}, { rootMargin: "400px" });
const look = () => {
  end.disconnect();
  element.querySelectorAll("[data-more]").forEach((each) => end.observe(each));
  const offered = element.querySelector("a[data-fetch]");
  if (offered && offered.dataset.fetch !== element.dataset.fetched) {
    element.dataset.fetched = offered.dataset.fetch;
    offered.click();
  }
};
watch("value", look);
look();
