"use strict";
// The lock of a tablet that several people share. The server locks the session; this script shows the lock at the time,
// tells the server that somebody touches the page, and has the keys of the PIN.

const LOCK_MS = 1000 * Number(document.body.dataset.lock || 0), TOUCHED = "touched:" + login;
let told = Date.now(), lastKept = 0, isLocking = false;

// All tabs of the login share the time of the last touch.
const lastTouch = () => kept(TOUCHED, 0);

function touch() {
  if (isLocking) return;
  const now = Date.now();
  if (now - lastKept < 1000) return;  // often enough
  lastKept = now;
  if (now - lastTouch() > LOCK_MS) { lockNow(); return; }  // the tablet has slept
  keep(TOUCHED, now);
  if (now - told < LOCK_MS / 15) return;
  told = now;
  tellWorker("touched");
  fetch("/touched", { method: "POST", headers: { "X-CSRF-Token": csrf, Accept: "application/json" } })
    .then((answer) => { if (answer.status === 423) showLock(); }).catch(() => null);
}

async function lockNow() {
  if (isLocking) return;
  isLocking = true;
  const sent = await fetch("/lock", { method: "POST", headers: { "X-CSRF-Token": csrf, Accept: "application/json", "X-Background": "yes" }, signal: AbortSignal.timeout(5000) }).catch(() => null);
  if (sent) { showLock(); return; }
  await wipeCopies();
  for (const part of document.querySelectorAll(".top, #unsent, #sending, #network")) part.remove();
  sayReason("locked");
}

// The server answers each page of a locked session with the lock.
function showLock() {
  isLocking = true;
  location.reload();
}

if (login && LOCK_MS) {
  keep(TOUCHED, Date.now());
  for (const kind of ["pointerdown", "keydown", "input", "wheel", "touchmove"]) document.addEventListener(kind, touch, { passive: true, capture: true });
  document.querySelector("[formaction='/lock']").form.addEventListener("submit", (event) => {
    if (event.submitter && event.submitter.hasAttribute("formaction")) { event.preventDefault(); lockNow(); }
  });
  setInterval(() => { if (Date.now() - lastTouch() > LOCK_MS) lockNow(); }, Math.min(1000, LOCK_MS / 5));
  document.addEventListener("visibilitychange", () => { if (!document.hidden && Date.now() - lastTouch() > LOCK_MS) lockNow(); });
}

const pad = document.getElementById("pad");
if (pad) {
  const pin = document.getElementById("pin");
  pad.hidden = false;
  pad.addEventListener("click", (event) => {
    const key = event.target.closest("button[type=button]");
    if (!key) return;
    if (key.dataset.digit) pin.value = (pin.value + key.dataset.digit).slice(0, 8);
    else pin.value = pin.value.slice(0, -1);
  });
}
