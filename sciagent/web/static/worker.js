"use strict";
// The service worker: the list and the opened tasks open without a network. Pages come from the server if it answers
// soon, else from a copy that says how old it is. The copies belong to one login: a page of somebody else, a page of
// nobody (log-in, lock), a log-out, the end of the session and the time of the lock wipe them. The server writes
// SHELL = {hash, paths} above: the files that all pages share.

const FILES = "shell:" + SHELL.hash, COPIES = "copies:" + SHELL.hash;
const OWNER = "/owner";  // not a page: {login, endsAt, lockSeconds, touchedAt}; times in ms
const OFFLINE = "/offline";
const SOON = 4000;  // ms in which the server answers
const MOST = 60;  // copies
const FRESH = 600_000;  // ms in which a copy is not fetched again by itself
const AWAY = [502, 503, 504];  // a proxy or the server without its ledger
let wipes = 0;  // an answer that was asked for before the last wipe is not kept

self.addEventListener("install", (event) => event.waitUntil((async () => {
  const cache = await caches.open(FILES);
  const shared = SHELL.paths.map((path) => new Request(path + "?v=" + SHELL.hash, { cache: "reload" }));
  await cache.addAll([...shared, new Request(OFFLINE, { cache: "reload" })]);
  await self.skipWaiting();
})()));

self.addEventListener("activate", (event) => event.waitUntil((async () => {
  for (const name of await caches.keys()) if (name !== FILES && name !== COPIES) await caches.delete(name);
  await self.clients.claim();
})()));

self.addEventListener("fetch", (event) => {
  const request = event.request, url = new URL(request.url);
  if (url.origin !== location.origin || request.cache === "no-store") return;
  if (request.method === "GET" && url.pathname.startsWith("/static/")) event.respondWith(shared(request));
  else if (request.method === "GET" && request.mode === "navigate") event.respondWith(page(event, url));
  else if (request.method === "POST" && request.mode === "navigate" && url.pathname === "/logout") event.respondWith(logOut(request));
});

self.addEventListener("message", (event) => {
  const { kind, paths } = event.data;
  const acts = { keep: () => keepAll(paths), wipe, touched, renew: () => renew(paths) };
  if (acts[kind]) event.waitUntil(acts[kind]().then(() => { if (event.ports[0]) event.ports[0].postMessage("done"); }));
});

// --- files that all pages share: their address has their hash
async function shared(request) {
  const cache = await caches.open(FILES), kept = await cache.match(request);
  if (kept) return kept;
  return fetch(request).catch(async (error) => { const older = await cache.match(request, { ignoreSearch: true }); if (older) return older; throw error; });
}

// --- pages
// The path under which a page is kept; null for pages that are never kept.
function keptAs(url) {
  if (url.pathname === "/") return "/tasks";  // it leads there
  return /^\/tasks(\/\d+)?$/.test(url.pathname) ? url.pathname : null;
}

async function page(event, url) {
  const path = keptAs(url), begun = wipes;
  const answer = fetch(event.request).then(async (response) => {
    await note(response, begun, true);
    if (path && response.ok && !response.redirected) {
      if (url.search) event.waitUntil(keepOne(path));  // its words are about the form before
      else await store(path, response.clone(), begun);
    }
    return response;
  });
  event.waitUntil(answer.catch(() => null));
  const first = await Promise.race([answer, after(SOON)]).catch(() => null);
  if (first && !AWAY.includes(first.status)) return first;
  const copy = path && await copyOf(path, begun);
  if (copy) return copy;
  if (first) return first;
  return answer.catch(() => words(path ? "not kept" : "never kept"));
}

const after = (ms) => new Promise((resolve) => setTimeout(() => resolve(null), ms));

// Whose page it is. A page of nobody has no login: nobody reads what was kept for the one before.
async function note(response, begun, isTouch) {
  if (response.type !== "basic" || begun !== wipes || !(response.headers.get("content-type") || "").startsWith("text/html")) return;
  const login = response.headers.get("x-login"), owner = await ownerOf();
  if (!login && response.status >= 500) return;
  if (!login || (owner && owner.login !== login)) await wipe();
  if (!login) return;
  const now = Date.now(), endsAt = now + 1000 * Number(response.headers.get("x-copy-seconds"));
  const touchedAt = isTouch || !owner ? now : owner.touchedAt;
  await write({ login, endsAt, lockSeconds: Number(response.headers.get("x-lock-seconds")), touchedAt });
}

async function ownerOf() {
  const kept = await (await caches.open(COPIES)).match(OWNER);
  return kept ? kept.json() : null;
}

async function write(owner) { await (await caches.open(COPIES)).put(OWNER, new Response(JSON.stringify(owner))); }

async function touched() {
  const owner = await ownerOf();
  if (owner && !isOver(owner)) await write({ ...owner, touchedAt: Date.now() });
}

function isOver(owner) {
  const now = Date.now();
  return now > owner.endsAt || (owner.lockSeconds > 0 && now > owner.touchedAt + 1000 * owner.lockSeconds);
}

async function wipe() {
  wipes += 1;
  await caches.delete(COPIES);
}

async function store(path, response, begun) {
  if (response.status !== 200 || response.redirected || !response.headers.get("x-login")) return;
  const body = await response.text(), headers = new Headers(response.headers);
  for (const name of ["content-length", "content-encoding"]) headers.delete(name);
  headers.set("x-kept-at", new Date().toISOString());
  const owner = await ownerOf();
  if (begun !== wipes || !owner || owner.login !== headers.get("x-login")) return;
  const cache = await caches.open(COPIES);
  await cache.delete(path);  // so that the keys are in the order of time
  await cache.put(path, new Response(body, { headers }));
  if (begun !== wipes) { await cache.delete(path); return; }
  const pages = (await cache.keys()).filter((key) => new URL(key.url).pathname.startsWith("/tasks/"));
  for (const key of pages.slice(0, Math.max(0, pages.length - MOST))) await cache.delete(key);
}

// A copy that says when it was made; null without one, or when the session has ended or is locked.
async function copyOf(path, begun) {
  const owner = await ownerOf();
  if (!owner) return null;
  if (isOver(owner)) { await wipe(); return words(owner.lockSeconds ? "locked" : "ended"); }
  const kept = await (await caches.open(COPIES)).match(path);
  if (!kept || begun !== wipes || kept.headers.get("x-login") !== owner.login) return null;
  await touched();
  const at = kept.headers.get("x-kept-at"), html = await kept.text();
  return new Response(html.replace("<body", '<body data-as-of="' + at + '"'), { headers: kept.headers });
}

// The page that says why there is none.
async function words(reason) {
  const kept = await (await caches.open(FILES)).match(OFFLINE);
  if (!kept) return Response.error();
  return new Response((await kept.text()).replace("<body", '<body data-reason="' + reason + '"'), { headers: kept.headers });
}

// --- keeping pages that nobody has opened yet, one after the other
async function keepOne(path) {
  const begun = wipes;
  const response = await fetch(path, { headers: { Accept: "text/html", "X-Background": "yes" }, redirect: "manual", cache: "no-store" }).catch(() => null);
  if (!response) return false;
  if (response.type === "opaqueredirect") await wipe();  // the session has ended
  else await note(response, begun, false);
  if (response.ok) await store(path, response, begun);
  return response.ok;
}

async function keepAll(paths) {
  for (const path of paths.slice(0, MOST - 10)) {
    if (!keptAs(new URL(path, location.origin))) continue;
    const kept = await (await caches.open(COPIES)).match(path);
    if (kept && Date.now() - Date.parse(kept.headers.get("x-kept-at")) < FRESH) continue;
    if (!(await keepOne(path))) return;
  }
}

// Pages that have changed, such as a task that was just answered.
async function renew(paths) {
  const cache = await caches.open(COPIES);
  for (const path of paths) await cache.delete(path);
  for (const path of paths) await keepOne(path);
}

async function logOut(request) {
  await wipe();
  return fetch(request).catch(() => words("log out"));
}
