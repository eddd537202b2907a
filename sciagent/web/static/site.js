"use strict";
// Keeps what is typed on this device until the server has it; sends it again after sleep or a lost network; asks for the
// password over a filled form; and renews what is live on a page. Without this script the forms work as plain forms.

const login = document.body.dataset.login;
const DRAFT = "draft:" + login + ":", QUEUE = "queue:" + login, NEXT_TRY = [2, 4, 8, 15, 30];
let csrf = document.body.dataset.csrf || "", waiting = null, tries = 0, sending = false;

const kept = (name, otherwise) => { try { return JSON.parse(localStorage.getItem(name)) ?? otherwise; } catch { return otherwise; } };
const keep = (name, value) => localStorage.setItem(name, JSON.stringify(value));
const clock = () => new Date().toTimeString().slice(0, 5);
const say = (text) => { const line = document.getElementById("sending"); line.textContent = text; line.hidden = !text; };

// --- drafts: a form with data-task is kept field by field
function fieldsOf(form) {
  const fields = {};
  for (const [name, value] of new FormData(form)) if (typeof value === "string" && name !== "csrf") fields[name] = value;
  return fields;
}

function hasContent(fields) { return Object.entries(fields).some(([name, value]) => value && /^(value|grade|readings|spread|comment|not_obtained|why)/.test(name)); }

function restore(form) {
  const draft = kept(DRAFT + form.dataset.task, null);
  if (!draft || form.querySelector("#why") && !draft.fields.why && !form.closest("section").querySelector(".fault")) return;
  if (hasContent(fieldsOf(form))) return;  // the server has sent back what was typed
  for (const [name, value] of Object.entries(draft.fields)) {
    const field = form.elements[name];
    if (field instanceof RadioNodeList) { field.value = value; continue; }
    if (field && name !== "seen" && field.type !== "file") field.value = value;
    if (field && value && field.closest && field.closest("details")) field.closest("details").open = true;
  }
  const first = form.querySelector("[autofocus]");
  if (first) first.select();  // typing replaces it
  form.querySelector("#draft").textContent = "what you typed at " + draft.at + " is back";
}

function remember(form) {
  for (const field of form.querySelectorAll("[data-remember]")) {
    const last = kept("last:" + field.name, "");
    if (field instanceof HTMLSelectElement) {  // a unit; one that the server has sent back stays
      if (!field.querySelector("option[selected]") && [...field.options].some((option) => option.value === last)) field.value = last;
    } else if (!field.value) field.value = last;
  }
}

function watch(form) {
  remember(form);
  restore(form);
  form.addEventListener("input", () => {
    keep(DRAFT + form.dataset.task, { fields: fieldsOf(form), at: clock() });
    form.querySelector("#draft").textContent = "kept on this device, " + clock();
  });
  form.addEventListener("submit", (event) => {
    if (form.dataset.plain) return;
    event.preventDefault();
    if (scanned(form)) return;
    for (const field of form.querySelectorAll("[data-remember]")) keep("last:" + field.name, field.value);
    const files = form.querySelector("[type=file]"), entry = { url: form.getAttribute("action"), task: form.dataset.task, fields: fieldsOf(form) };
    keep(DRAFT + form.dataset.task, { fields: entry.fields, at: clock() });
    if (files && files.files.length) sendFiles(form);
    else { keep(QUEUE, [...kept(QUEUE, []).filter((other) => other.task !== entry.task), entry]); flush(form); }
  });
}

// --- a scanner types the code of a vial, and Enter, into the field that has the cursor
const CODE = /(?:https?:\/\/\S+\/s\/([0-9A-Z]{11})|^(?=.*[A-DF-Z])([0-9A-Z]{11}))\/?$/i;

function scanned(form) {
  const field = document.activeElement, isVial = field.id === "sample", code = field.form === form && CODE.exec(field.value);
  if (!code || !isVial && !field.closest(".measure")) return false;
  field.value = isVial ? code[1] || code[2] : field.value.slice(0, code.index);
  field.dispatchEvent(new Event("input", { bubbles: true }));
  if (isVial) form.querySelector(".measure input, .grade input").focus();
  else if (hasContent(fieldsOf(form))) refused(form, "a vial was scanned before this answer was saved: save it, then scan the vial again");
  else { localStorage.removeItem(DRAFT + form.dataset.task); location.assign("/scan?code=" + encodeURIComponent(code[1] || code[2])); }
  return true;
}

// --- the queue: answers that the server has not taken yet
function body(entry) { const data = new FormData(); for (const [name, value] of Object.entries(entry.fields)) data.append(name, value); return data; }

async function post(url, data) {
  return fetch(url, { method: "POST", body: data, headers: { Accept: "application/json", "X-CSRF-Token": csrf }, signal: AbortSignal.timeout(30000) });
}

async function flush(form) {
  if (sending) return;
  sending = true;
  clearTimeout(waiting);
  try {
    for (let queue = kept(QUEUE, []); queue.length; queue = kept(QUEUE, [])) {
      const entry = queue[0], here = form && form.dataset.task === entry.task ? form : null;
      say("sending " + queue.length + (queue.length > 1 ? " answers …" : " answer …"));
      let response;
      try { response = await post(entry.url, body(entry)); } catch { later(queue.length); return; }
      if (response.status === 401) { say(""); askPassword(() => flush(form)); return; }
      if (response.status === 403 && await renewed()) continue;
      if (response.status >= 500) { later(queue.length); return; }
      keep(QUEUE, kept(QUEUE, []).filter((other) => other.task !== entry.task));
      tries = 0;
      const answer = await response.json().catch(() => ({}));
      if (response.ok) { localStorage.removeItem(DRAFT + entry.task); if (here) { location.assign(answer.next); return; } }
      else if (here && response.status === 409) { plain(here); return; }
      else if (here) { say(""); refused(here, answer.detail); return; }
      else { say(""); refusedElsewhere(entry, answer.detail); return; }
    }
    say("");
  } finally { sending = false; }
}

function later(n) {
  const wait = NEXT_TRY[Math.min(tries++, NEXT_TRY.length - 1)];
  say((n > 1 ? n + " answers are" : "your answer is") + " kept on this device; trying again. No network, or the server does not answer.");
  waiting = setTimeout(() => flush(document.querySelector("form[data-task]")), wait * 1000);
}

function refused(form, text) {
  const place = document.getElementById("fault");
  place.innerHTML = "";
  const line = Object.assign(document.createElement("p"), { className: "fault", textContent: text || "the server refused it" });
  line.setAttribute("role", "alert");
  place.append(line);
  line.scrollIntoView({ block: "nearest" });
  const first = form.querySelector(".measure input");
  if (first) first.focus();
}

function refusedElsewhere(entry, text) {
  say("task " + entry.task + " was not taken: " + (text || "see its page") + " ");
  const link = Object.assign(document.createElement("a"), { href: "/tasks/" + entry.task, textContent: "open it" });
  document.getElementById("sending").append(link);
}

function plain(form) { form.dataset.plain = "yes"; form.elements.csrf.value = csrf; form.requestSubmit ? form.requestSubmit() : form.submit(); }

async function sendFiles(form) {
  say("sending the answer with its files …");
  const data = new FormData(form);
  let response;
  try { response = await post(form.getAttribute("action"), data); } catch { say("not sent: no network. Your answer is kept; leave the page open for its files."); waiting = setTimeout(() => sendFiles(form), 5000); return; }
  if (response.status === 401) { say(""); askPassword(() => sendFiles(form)); return; }
  if (response.status === 403 && await renewed()) return sendFiles(form);
  if (response.status === 409) { plain(form); return; }
  const answer = await response.json().catch(() => ({}));
  say("");
  if (!response.ok) { refused(form, answer.detail); return; }
  localStorage.removeItem(DRAFT + form.dataset.task);
  location.assign(answer.next);
}

// --- a session that has ended: the password is asked for over the form; a newer session has a newer token
async function renewed() {
  const before = csrf, page = await fetch("/tasks", { headers: { Accept: "text/html" } }).then((r) => r.text()).catch(() => "");
  csrf = new DOMParser().parseFromString(page, "text/html").body.dataset.csrf || "";
  if (!csrf || csrf === before) { csrf = csrf || before; return false; }
  return true;
}

function askPassword(then) {
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-label", "Log in again");
  dialog.innerHTML = '<form method="dialog"><h2>Log in again</h2><p>Your session has ended. What you typed is still there.</p><p class="fault" role="alert" hidden></p>' +
    '<label for="again-password">Password of <span></span></label><input id="again-password" type="password" autocomplete="current-password" required><button class="main">Log in, and send</button></form>';
  dialog.querySelector("span").textContent = login;
  document.body.append(dialog);
  dialog.querySelector("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const data = new FormData();
    data.append("login", login);
    data.append("password", dialog.querySelector("input").value);
    const fault = dialog.querySelector(".fault");
    let response;
    try { response = await fetch("/login", { method: "POST", body: data, headers: { Accept: "application/json" } }); } catch { fault.hidden = false; fault.textContent = "no network; try again"; return; }
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) { fault.hidden = false; fault.textContent = answer.detail || "try again"; return; }
    csrf = answer.csrf;
    document.body.dataset.csrf = csrf;
    for (const field of document.querySelectorAll("input[name=csrf]")) field.value = csrf;
    dialog.close();
    dialog.remove();
    then();
  });
  dialog.showModal();
}

// --- live parts: after a tick of the server the page is fetched again, and its live parts are put in place
function follow() {
  if (!document.querySelector("[data-live]")) return;
  let shown = Number(document.body.dataset.tick), due = null;
  const older = document.querySelector("[data-again]");
  if (older) setTimeout(renew, 1000 * Number(older.dataset.again));
  const source = new EventSource("/live");
  source.onmessage = (event) => {
    if (Number(event.data) === shown) return;
    shown = Number(event.data);
    clearTimeout(due);
    due = setTimeout(renew, Math.random() * 500);
  };
}

async function renew() {
  const response = await fetch(location.href, { headers: { Accept: "text/html" } }).catch(() => null);
  if (!response || !response.ok || response.redirected) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const part of document.querySelectorAll("[data-live]")) {
    const fresh = page.getElementById(part.id);
    if (fresh && fresh.innerHTML !== part.innerHTML && !part.contains(document.activeElement) && !part.querySelector("input:checked")) part.replaceWith(fresh);
    if (fresh && fresh.dataset.again) setTimeout(renew, 1000 * Number(fresh.dataset.again));  // it shows older figures
  }
}

for (const form of document.querySelectorAll("form[data-task]")) watch(form);
for (const button of document.querySelectorAll("[data-print]")) { button.hidden = false; button.addEventListener("click", () => print()); }
if (login) {
  follow();
  window.addEventListener("online", () => flush(document.querySelector("form[data-task]")));
  document.addEventListener("visibilitychange", () => { if (!document.hidden && kept(QUEUE, []).length) flush(document.querySelector("form[data-task]")); });
  if (kept(QUEUE, []).length) flush(document.querySelector("form[data-task]"));
}
