"use strict";
// Answers that the server has not taken yet. Each is kept on this device and sent by itself: what the server says of one
// stands on its task, and holds up no other. They belong to the login that typed them: nobody else sees or sends them.

const QUEUE = "queue:" + login, NEXT_TRY = [2, 4, 8, 15, 30];  // seconds
const RETRIED = [408, 425, 429, 502, 503, 504];  // a reply that says nothing of the answer itself
let waiting = null, tries = 0, sending = false, leaving = false;

// An entry: {id, task, url, fields, missed: sendings without a reply, refused: the server's words, conflict: somebody else answered,
// confirmed: what the field of this name holds when the person says that an improbable answer is right}
const unsent = () => kept(QUEUE, []);
const entryOf = (task) => unsent().find((entry) => entry.task === task);
const taskForm = () => document.querySelector("form[data-task]");
const newKey = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

function enqueue(form) {
  const entry = { id: newKey(), task: form.dataset.task, url: form.getAttribute("action"), fields: fieldsOf(form), missed: 0 };
  try {
    keep(DRAFT + entry.task, { fields: entry.fields, at: clock() });
    keep(QUEUE, [...unsent().filter((other) => other.task !== entry.task), entry]);
  } catch { plain(form); return; }  // no room on this device
  form.dataset.sent = entry.id;
  showUnsent();
  flush();
}

// Goes to another page, once: a second call would abort the first while it loads.
function leave(url) {
  if (leaving) return;
  leaving = true;
  location.assign(url);
}

function change(entry, changes) {
  keep(QUEUE, unsent().map((other) => (other.id === entry.id ? { ...other, ...changes } : other)));
  showUnsent();
}

function remove(entry) {
  keep(QUEUE, unsent().filter((other) => other.id !== entry.id));
  const draft = kept(DRAFT + entry.task, null);
  if (draft && JSON.stringify(draft.fields) === JSON.stringify(entry.fields)) localStorage.removeItem(DRAFT + entry.task);
  showUnsent();
}

// --- sending
function nextOf(tried) {
  const form = taskForm(), here = form && form.dataset.task;
  const open = unsent().filter((entry) => !entry.refused && !tried.has(entry.id));
  return open.sort((a, b) => a.missed - b.missed || (b.task === here) - (a.task === here))[0];
}

async function flush() {
  if (sending || !nextOf(new Set())) return;
  sending = true;
  clearTimeout(waiting);
  const tried = new Set(), sent = [];
  try {
    for (let entry = nextOf(tried); entry; entry = nextOf(tried)) {
      tried.add(entry.id);
      const n = unsent().filter((each) => !each.refused).length;
      say("sending " + n + (n > 1 ? " answers …" : " answer …"));
      const data = new FormData();
      for (const [name, value] of Object.entries(entry.fields)) data.append(name, value);
      const verdict = await verdictOn(entry.url, data);
      if (verdict.kind === "no reply") { change(entry, { missed: entry.missed + 1 }); later(); return; }
      if (verdict.kind === "log in") { say(""); wipeCopies(); askPassword(flush); return; }
      if (verdict.kind === "locked") { showLock(); return; }
      if (verdict.kind === "another login") { say("Somebody else has logged in on this device. Your answers stay here for you."); return; }
      tries = 0;
      if (verdict.kind === "refused") { refuse(entry, verdict); continue; }
      remove(entry);
      tellWorker("renew", ["/tasks/" + entry.task, "/tasks"]);  // the copies are from before the answer
      sent.push(entry.task);
      if (isHere(entry)) { leave(verdict.next); return; }
    }
    say(sent.length ? (sent.length > 1 ? sent.length + " answers were sent: task " : "sent: the answer of task ") + sent.join(", task ") : "");
  } finally { sending = false; }
}

const isHere = (entry) => { const form = taskForm(); return Boolean(form && form.dataset.task === entry.task && form.dataset.sent === entry.id); };

// The verdict of the server on one answer: {kind: recorded, refused, no reply, log in, locked or another login}
async function verdictOn(url, data) {
  let response;
  try {
    response = await fetch(url, { method: "POST", body: data, headers: { Accept: "application/json", "X-CSRF-Token": csrf, "X-Background": "yes" }, signal: AbortSignal.timeout(30000) });
  } catch { return { kind: "no reply" }; }
  if (response.status === 401) return { kind: "log in" };
  if (response.status === 423) return { kind: "locked" };
  if (response.status === 403) {
    const session = await renewed();
    if (session === "renewed") return verdictOn(url, data);
    if (session !== "same") return { kind: session };
  }
  const answer = await response.json().catch(() => null);
  if (RETRIED.includes(response.status) || (response.ok && !(answer && answer.next))) return { kind: "no reply", words: answer && answer.detail };
  if (response.ok) return { kind: "recorded", next: answer.next };
  const words = (answer && answer.detail) || "the server refused it (" + response.status + ")";
  return { kind: "refused", words, conflict: Boolean(answer && answer.conflict), confirmed: (answer && answer.confirmed) || "", field: (answer && answer.field) || "" };
}

// --- forms beside the measurement, such as that of a vial: what is typed stays through a fault and an ended session
const BESIDE = "beside:" + login + ":";
const besideName = (form) => BESIDE + (form.getAttribute("action") || location.pathname);

function watchBeside(form) {
  const typed = kept(besideName(form), null);
  if (typed && !form.querySelector(".fault")) fill(form, typed);
  form.addEventListener("input", () => {
    const changed = [...form.elements].filter((field) => field.name && field.type !== "hidden" && field.type !== "password" && isChanged(field));
    keep(besideName(form), Object.fromEntries(changed.map((field) => [field.name, field.value])));
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); sendKept(form, event.submitter); });
}

async function sendKept(form, button) {
  const verdict = await verdictOn(form.getAttribute("action") || location.pathname, new FormData(form, button));
  if (verdict.kind === "recorded") { localStorage.removeItem(besideName(form)); leave(verdict.next); return; }
  if (verdict.kind === "log in") { wipeCopies(); askPassword(() => sendKept(form, button)); return; }
  if (verdict.kind === "locked") { showLock(); return; }
  if (verdict.kind === "another login") { markFault(form, "Somebody else has logged in on this device. Nothing was sent."); return; }
  if (verdict.kind === "no reply") { markFault(form, verdict.words || "Not sent: no network, or the server does not answer. What you typed is still here."); return; }
  markFault(form, verdict.words, verdict.field);
}

function markFault(form, words, name) {
  for (const earlier of form.querySelectorAll(".fault")) earlier.remove();
  for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  const line = element("p", { className: "fault", textContent: words, id: "fault-here" }), field = name && form.elements[name];
  line.setAttribute("role", "alert");
  form.prepend(line);
  if (!field) { line.scrollIntoView({ block: "nearest" }); return; }
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-describedby", "fault-here");
  field.focus();
}

// A newer session of the same login has a newer token.
async function renewed() {
  let text;
  try {
    const response = await fetch("/tasks", { headers: { Accept: "text/html", "X-Background": "yes" } });
    if (response.status === 423) return "locked";
    text = await response.text();
  } catch { return "no reply"; }
  const page = new DOMParser().parseFromString(text, "text/html").body.dataset;
  if (!page.login) return "log in";
  if (page.login !== login) return "another login";
  if (page.csrf === csrf) return "same";
  csrf = page.csrf;
  return "renewed";
}

function later() {
  const n = unsent().filter((entry) => !entry.refused).length, wait = NEXT_TRY[Math.min(tries++, NEXT_TRY.length - 1)];
  say((n > 1 ? n + " answers are" : "your answer is") + " kept on this device; trying again. No network, or the server does not answer.");
  waiting = setTimeout(flush, wait * 1000);
}

// Files are not kept on the device: they are sent from the page that they were chosen on.
async function sendFiles(form) {
  say("sending the answer with its files …");
  const verdict = await verdictOn(form.getAttribute("action"), new FormData(form));
  if (verdict.kind === "no reply") { say("not sent: no network. Your answer is kept; leave the page open for its files."); setTimeout(() => sendFiles(form), 5000); return; }
  say("");
  if (verdict.kind === "log in") { wipeCopies(); askPassword(() => sendFiles(form)); return; }
  if (verdict.kind === "locked") { showLock(); return; }
  if (verdict.kind === "another login") { say("Somebody else has logged in on this device. Your answer was not sent."); return; }
  if (verdict.conflict) { plain(form); return; }
  if (verdict.kind === "refused") { showFault(form, verdict.words, { task: form.dataset.task, fields: fieldsOf(form), confirmed: verdict.confirmed }); return; }
  forget(form.dataset.task);
  leave(verdict.next);
}

// Sends a form as one without scripts is sent: the server answers with the page.
function plain(form) {
  sessionStorage.setItem("plain", form.dataset.task);
  form.dataset.plain = "yes";
  form.elements.csrf.value = csrf;
  form.noValidate = true;  // the server says what is missing
  form.requestSubmit();
}

// --- what was refused stands on its task with the server's words
function refuse(entry, verdict) {
  const here = isHere(entry), form = taskForm(), fields = { ...entry.fields, key: newKey() };  // nothing is recorded under the old key
  const draft = kept(DRAFT + entry.task, null);
  if (draft && JSON.stringify(draft.fields) === JSON.stringify(entry.fields)) keep(DRAFT + entry.task, { ...draft, fields });
  change(entry, { fields, refused: verdict.words, conflict: verdict.conflict, confirmed: verdict.confirmed });
  if (!here) return;
  form.elements.key.value = fields.key;
  if (verdict.conflict) plain(form);
  else showFault(form, verdict.words, entryOf(entry.task));
}

function showFault(form, words, entry) {
  const place = document.getElementById("fault"), line = element("p", { className: "fault", textContent: words });
  line.setAttribute("role", "alert");
  place.replaceChildren(line);
  if (entry) place.append(...choices(entry, form));
  const field = fieldAtFault(form, words);
  if (field) field.focus({ preventScroll: true });
  line.scrollIntoView({ block: "nearest" });
}

// The field that the server's words are about, which begin with its quantity; else the first number.
function fieldAtFault(form, words) {
  for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  if (/^(measured on|the day of the measurement) /i.test(words)) {
    const day = form.elements.measured_on;
    day.closest("details").open = true;
    day.setAttribute("aria-invalid", "true");
    return day;
  }
  const about = [...form.querySelectorAll("fieldset")].find((set) => beginsWith(words, set.querySelector("legend").textContent.trim()));
  if (!about) return form.querySelector(".measure input");
  const filled = [...about.querySelectorAll("[name^='readings.'], [name^='value.']")].filter((field) => field.value);
  const field = words.includes(": the uncertainty") ? about.querySelector("[name^='spread.']") : filled[0] || about.querySelector(".measure input");
  if (field) field.setAttribute("aria-invalid", "true");
  return field;
}

// Whether words begin with the label of a field; a sentence begins with a capital.
function beginsWith(words, label) {
  return words.toLowerCase().startsWith(label.toLowerCase()) && [":", " "].includes(words[label.length]);
}

function choices(entry, form) {
  const found = [];
  if (entry.confirmed) found.push(element("button", { type: "button", className: "main", textContent: "It is right: record it", onclick: () => confirmIt(entry, form) }));
  if (entry.conflict && form) found.push(element("button", { type: "button", textContent: "Show both answers", onclick: () => { form.elements.seen.value = entry.fields.seen; plain(form); } }));
  found.push(element("button", { type: "button", textContent: "Discard what I typed", onclick: () => askDiscard(entry) }));
  return found;
}

// Sends an improbable answer once more, with the word of the person that it is right.
function confirmIt(entry, form) {
  if (form) { form.elements.confirmed.value = entry.confirmed; form.requestSubmit(); return; }
  change(entry, { fields: { ...entry.fields, confirmed: entry.confirmed }, refused: "", confirmed: "" });
  flush();
  location.assign("/tasks");
}

function askDiscard(entry) {
  ask("Discard it?", [element("p", { textContent: "Task " + entry.task + ": " + typedIn(entry.fields) }), element("p", { textContent: "It was not recorded, and it cannot be brought back." })],
    [["Keep it", () => {}], ["Discard it", () => { forget(entry.task); location.assign("/tasks/" + entry.task); }]]);
}

// What a person typed, in one line: values and readings with their units, a reason, a comment.
function typedIn(fields) {
  const parts = [];
  for (const [name, value] of Object.entries(fields)) {
    if (!value || !hasContent({ [name]: value })) continue;
    const [, part, property] = /^(\w+)\.?(.*)$/.exec(name), unit = fields["unit." + property];
    const words = (part === "spread" ? "± " : "") + value.replace(/\s+/g, " ").replace(/_/g, part === "not_obtained" || part === "reason" ? " " : "_");
    parts.push(words + (["value", "readings"].includes(part) && unit && unit !== "1" ? " " + unit : ""));
  }
  return parts.join("; ");
}

function forget(task) {
  localStorage.removeItem(DRAFT + task);
  keep(QUEUE, unsent().filter((entry) => entry.task !== task));
  showUnsent();
}

function stand() {
  const task = (/^\/tasks\/(\d+)/.exec(location.pathname) || [])[1], form = taskForm();
  const entry = task && entryOf(task);
  if (!entry) return;
  if (!entry.refused) { if (form) { fill(form, entry.fields); form.dataset.sent = entry.id; } return; }
  if (form && document.querySelector("#fault .fault")) return;  // the server has shown it
  const draft = kept(DRAFT + task, entry);  // what was typed since the server refused it
  if (form) { fill(form, draft.fields); showFault(form, entry.refused, entry); return; }
  const box = element("section", { className: "unsent-here" }), line = element("p", { className: "fault", textContent: "Your answer was not taken: " + entry.refused });
  box.append(line, element("p", { textContent: "You typed: " + typedIn(entry.fields) }), ...choices(entry, null));
  document.querySelector(".task-page").before(box);
}

// Another page of this device has sent the answer of this page, or has its refusal.
function followUp() {
  showUnsent();
  const form = taskForm();
  if (!form || !form.dataset.sent || form.dataset.plain) return;
  const entry = entryOf(form.dataset.task);
  if (!entry) { leave("/tasks?saved=" + form.dataset.task); return; }
  if (entry.refused && entry.id === form.dataset.sent) { say(""); form.elements.key.value = entry.fields.key; showFault(form, entry.refused, entry); }
}

// --- the banner, and logging out
const taskLink = (task) => element("a", { href: "/tasks/" + task, textContent: "Task " + task });

function lineOf(task, words) {
  const line = element("li", {});
  line.append(taskLink(task));
  if (words) line.append(element("span", { textContent: words }));
  return line;
}

function showUnsent() {
  const place = document.getElementById("unsent"), listed = unsent().filter((entry) => entry.refused || entry.missed);
  const refused = listed.filter((entry) => entry.refused), waitingHere = listed.filter((entry) => !entry.refused);
  const title = [refused.length ? refused.length + (refused.length > 1 ? " answers were" : " answer was") + " not taken" : "",
    waitingHere.length ? waitingHere.length + (waitingHere.length > 1 ? " answers are" : " answer is") + " not sent yet" : ""].filter(Boolean).join(", ");
  const list = element("ul", { className: "plain" }), isShort = Boolean(taskForm());  // the form of a task needs the room
  for (const entry of refused) list.append(lineOf(entry.task, isShort ? "" : entry.refused));
  for (const entry of waitingHere) list.append(lineOf(entry.task, isShort ? "" : "not sent yet: " + typedIn(entry.fields)));
  place.classList.toggle("short", isShort);
  place.hidden = !listed.length;
  place.replaceChildren(element("p", { className: "title", textContent: title }), list);
}

function notSaved() {
  const found = unsent().map((entry) => [entry.task, entry.refused ? "not taken: " + entry.refused : "not sent yet"]);
  const queued = new Set(found.map(([task]) => task));
  for (const name of Object.keys(localStorage)) {
    const task = name.startsWith(DRAFT) ? name.slice(DRAFT.length) : "", draft = task && kept(name, null);
    if (task && !queued.has(task) && draft && draft.fields && hasContent(draft.fields)) found.push([task, "typed, and not saved"]);
  }
  return found;
}

function askBeforeLogOut(event) {
  const open = notSaved(), form = event.target;
  if (event.submitter && event.submitter.hasAttribute("formaction")) return;  // it locks
  if (!open.length || form.dataset.plain) return;
  event.preventDefault();
  const list = element("ul", { className: "plain" });
  for (const [task, words] of open) list.append(lineOf(task, words));
  const title = open.length > 1 ? open.length + " answers of yours are not recorded" : "An answer of yours is not recorded";
  const [they, them] = open.length > 1 ? ["they stay", "them"] : ["it stays", "it"];
  const promise = "If you log out, " + they + " on this device. Nobody else sees or sends " + them +
    ". When you log in here again, what is not sent yet is sent, and the rest waits on its task. Everything else of yours is wiped here.";
  ask(title, [list, element("p", { textContent: promise })], [["Stay", () => {}], ["Log out, and keep " + them + " here", () => { form.dataset.plain = "yes"; form.requestSubmit(); }]]);
}

// A question over the page. actions: [words, what is done] of each button; the first one has the focus.
function ask(title, parts, actions) {
  const dialog = element("dialog", {}), heading = element("h2", { id: "ask-title", textContent: title });
  dialog.setAttribute("aria-labelledby", "ask-title");
  const buttons = element("div", { className: "choices" });
  for (const [words, done] of actions) buttons.append(element("button", { type: "button", textContent: words, onclick: () => { dialog.close(); done(); } }));
  dialog.append(heading, ...parts, buttons);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  dialog.querySelector("button").focus();
}

if (login) {
  const saved = new URLSearchParams(location.search).get("saved");
  if (saved && saved === sessionStorage.getItem("plain")) { sessionStorage.removeItem("plain"); forget(saved); }
  for (const link of document.querySelectorAll("[data-drop]")) link.addEventListener("click", () => forget(link.dataset.drop));
  for (const form of document.querySelectorAll("form[data-keep]")) watchBeside(form);
  document.querySelector("form[action='/logout']").addEventListener("submit", askBeforeLogOut);
  window.addEventListener("storage", (event) => { if (event.key === QUEUE) followUp(); });
  window.addEventListener("pageshow", () => { leaving = false; });  // brought back by the browser's Back
  window.addEventListener("online", () => { tries = 0; flush(); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) flush(); });
  showUnsent();
  stand();
  flush();
}
