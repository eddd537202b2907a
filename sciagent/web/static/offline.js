"use strict";
// The page's side of working without a network: it starts the service worker (worker.js), says when a page is a copy,
// and wipes what belongs to a login that has ended. Unsent answers, and forms that hold something, are never wiped.

const asOf = document.body.dataset.asOf || "", reason = document.body.dataset.reason || "";
const REASONS = {
  "not kept": ["This page is not kept on this device", "There is no network, or the server does not answer. The list, the tasks that you opened here and the tasks that you claimed open without it.", true],
  "never kept": ["No network, or the server does not answer", "This page needs the server. The list, the tasks that you opened here and the tasks that you claimed open without it.", true],
  "locked": ["This device is locked", "There is no network, or the server does not answer, and without it your PIN cannot be checked. What you typed is kept for you.", false],
  "ended": ["Your session has ended", "There is no network, or the server does not answer, and without it nobody can log in. What you typed is kept for you.", false],
  "log out": ["You are not logged out yet", "There is no network, or the server does not answer, so the session is still open. The pages on this device are wiped. Log out again when the network is back.", false],
};
const PING_EVERY = 5000;  // ms

const workerHere = () => navigator.serviceWorker && navigator.serviceWorker.controller;

// Asks the worker for something, and waits until it is done.
function tellWorker(kind, paths) {
  const worker = workerHere();
  if (!worker) return Promise.resolve();
  return new Promise((resolve) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = resolve;
    worker.postMessage({ kind, paths }, [channel.port2]);
    setTimeout(resolve, 5000);
  });
}

async function wipeCopies() {
  await tellWorker("wipe");
  if (window.caches) for (const name of await caches.keys()) if (name.startsWith("copies:")) await caches.delete(name);
}

// What the browser keeps of other logins, but for answers that the server has not taken. kept: the login that stays.
function tidy(stays) {
  for (const name of Object.keys(localStorage)) {
    const [kind, owner] = name.split(":");
    if (owner === stays || !["draft", "last", "touched", "beside"].includes(kind)) continue;
    const draft = kind === "draft" ? kept(name, null) : null;
    if (!draft || !draft.fields || !hasContent(draft.fields)) localStorage.removeItem(name);
  }
}

// --- a page that came from the copy
function sayAsOf() {
  const at = new Date(asOf), isToday = at.toDateString() === new Date().toDateString();
  const time = at.toTimeString().slice(0, 5), day = isToday ? "" : at.toLocaleDateString(undefined, { day: "numeric", month: "short" }) + ", ";
  sayNetwork("Without a network, as of " + day + time + ". What you save waits on this device.");
  whenBack(() => {
    if (!document.querySelector("form[data-task]")) { location.reload(); return; }
    const link = element("a", { href: location.href, textContent: "Load this page again" });
    sayNetwork("The network is back. ", link);
  });
}

function sayNetwork(text, more) {
  const line = document.getElementById("network");
  line.replaceChildren(text, ...(more ? [more] : []));
  line.hidden = false;
}

// The page that stands for one that cannot be shown. why: one of REASONS.
function sayReason(why) {
  const [title, text, hasCopies] = REASONS[why] || REASONS["never kept"];
  const box = element("section", { className: "narrow" });
  box.append(element("h1", { textContent: title }), element("p", { textContent: text }));
  if (hasCopies) box.append(element("a", { className: "button", href: "/tasks", textContent: "To the list" }));
  document.getElementById("main").replaceChildren(box);
  document.title = title + " · sciagent";
  whenBack(() => { if (why === "log out") location.assign("/tasks"); else location.reload(); });
}

function whenBack(then) {
  const timer = setInterval(async () => {
    const answer = await fetch("/offline", { cache: "no-store", signal: AbortSignal.timeout(PING_EVERY) }).catch(() => null);
    if (!answer || !answer.ok) return;
    clearInterval(timer);
    then();
  }, PING_EVERY);
}

// --- the worker
async function startWorker() {
  if (!window.isSecureContext) return "the address of this server is not https with a certificate that this browser trusts";
  if (!navigator.serviceWorker) return "this browser, or its private mode, keeps no pages";
  try {
    await navigator.serviceWorker.register("/worker.js", { scope: "/" });
    await navigator.serviceWorker.ready;
  } catch (error) { return "this browser refused to keep pages, most often since it does not trust the certificate of this server"; }
  return "";
}

// Said once on a device, and again when the reason is another one.
function sayWhyNot(why) {
  if (!why || kept("told-without-network", "") === why) return;
  keep("told-without-network", why);
  const line = element("p", { className: "muted note", textContent: "Pages do not open without a network on this device: " + why + ". Whoever runs the server finds the way in docs/lab.md." });
  document.getElementById("main").append(line);
}

// The page that the worker has not seen, since it was not there yet, and the person's own tasks.
async function keepPages() {
  const own = Array.from(document.querySelectorAll("[data-keep] a.task"), (link) => link.getAttribute("href"));
  await tellWorker("keep", [...new Set([location.pathname, "/tasks", ...own])]);
}

if (!login && !reason && document.body.dataset.offline === undefined) {
  tidy(document.body.dataset.locked || "");
  wipeCopies();
} else if (reason || document.body.dataset.offline !== undefined) sayReason(reason);
else {
  tidy(login);
  if (asOf) sayAsOf();
  startWorker().then((why) => {
    sayWhyNot(why);
    if (why || asOf) return;
    if (workerHere()) keepPages();
    else navigator.serviceWorker.addEventListener("controllerchange", keepPages, { once: true });
  });
}
