// Conveniences: every page works without them.
"use strict";

// Buttons that copy what an element holds.
for (const button of document.querySelectorAll("button[data-copy]")) {
  const source = document.getElementById(button.dataset.copy);
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(source.textContent);
    } catch { // without HTTPS browsers copy only what is selected
      getSelection().selectAllChildren(source);
      if (!document.execCommand("copy")) return;
    }
    button.textContent = "Copied";
  });
}

// Fields that belong to a radio button select it.
for (const field of document.querySelectorAll("[data-selects]")) {
  const radio = document.getElementById(field.dataset.selects);
  field.addEventListener("input", () => { radio.checked = true; });
  for (const other of document.getElementsByName(radio.name)) {
    if (other !== radio && field.type === "text") other.addEventListener("change", () => { field.value = ""; });
  }
}

// Parts of a page that follow what happens, unless somebody is using them.
async function refresh() {
  if (document.hidden || !document.querySelector("[data-live]")) return;
  try {
    const answer = await fetch(location.href);
    if (!answer.ok || answer.redirected) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const fresh = page.getElementById(part.id);
      const busy = part.contains(document.activeElement) || part.querySelector("details[open]");
      if (fresh && !busy && fresh.innerHTML !== part.innerHTML) part.replaceChildren(...fresh.childNodes);
      if (fresh && !("live" in fresh.dataset)) delete part.dataset.live;
    }
  } catch { /* the next time */ }
}

// A part whose data-live names a stream of server-sent events is refreshed when an event "change" comes, and now and then. Without
// the stream it is refreshed every three seconds.
let stream, due;
function refreshSoon() {
  due ??= setTimeout(() => { due = undefined; refresh(); }, 300);
}
function follow() {
  const address = document.querySelector("[data-live]")?.dataset.live;
  if (document.hidden || !address) { // browsers have few connections to a server
    stream?.close();
    stream = undefined;
  } else if (!stream || stream.readyState === EventSource.CLOSED) {
    stream = new EventSource(address);
    stream.addEventListener("open", refreshSoon);
    stream.addEventListener("change", refreshSoon);
  }
}
let ticks = 0;
setInterval(() => {
  follow();
  if (stream?.readyState !== EventSource.OPEN || ++ticks % 10 === 0) refresh();
}, 3000);
document.addEventListener("visibilitychange", follow);
follow();
