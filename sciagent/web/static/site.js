"use strict";
// Keeps what is typed on this device until the server has it; asks for the password over a filled form; and renews what
// is live on a page. unsent.js sends what was saved, offline.js opens pages without a network, and lock.js shows the
// lock. Without these scripts the forms work as plain forms.

const login = document.body.dataset.login;
const DRAFT = "draft:" + login + ":", LAST = "last:" + login + ":";
let csrf = document.body.dataset.csrf || "";

const kept = (name, otherwise) => { try { return JSON.parse(localStorage.getItem(name)) ?? otherwise; } catch { return otherwise; } };
const keep = (name, value) => localStorage.setItem(name, JSON.stringify(value));
const clock = () => new Date().toTimeString().slice(0, 5);
const element = (name, properties) => Object.assign(document.createElement(name), properties);
const say = (text) => { const line = document.getElementById("sending"); line.textContent = text; line.hidden = !text; };

// --- drafts: a form with data-task is kept field by field
function fieldsOf(form) {
  const fields = {};
  for (const [name, value] of new FormData(form)) if (typeof value === "string" && name !== "csrf") fields[name] = value;
  return fields;
}

const ANSWER = /^(value|grade|readings|spread|comment|not_obtained|reason|why)/;
function hasContent(fields) { return Object.entries(fields).some(([name, value]) => value && ANSWER.test(name)); }

// Whether a field differs from what the page came with, such as the answer that a correction begins with.
function isChanged(field) {
  if (field.type === "radio") return field.checked !== field.defaultChecked;
  if (!(field instanceof HTMLSelectElement)) return field.value !== field.defaultValue;
  const first = [...field.options].find((option) => option.defaultSelected) || field.options[0];
  return field.value !== first.value;
}
function hasChanges(form) {
  if ("returned" in form.dataset) return hasContent(fieldsOf(form));
  return [...form.elements].some((field) => ANSWER.test(field.name) && isChanged(field));
}

function restore(form) {
  const draft = kept(DRAFT + form.dataset.task, null);
  if (!draft || "returned" in form.dataset) return;  // the server has sent back what was typed
  if (draft.fields.seen !== form.elements.seen.value && !draft.fields.why) return;  // somebody has answered since
  fill(form, draft.fields);
  const first = form.querySelector("[autofocus]");
  if (first) first.select();  // typing replaces it
  form.querySelector("#draft").textContent = "what you typed at " + draft.at + " is back";
}

function fill(form, fields) {
  for (const [name, value] of Object.entries(fields)) {
    const field = form.elements[name];
    if (field instanceof RadioNodeList) { field.value = value; continue; }
    if (field && name !== "seen" && field.type !== "file") field.value = value;
    if (field && value && field.closest && field.closest("details")) field.closest("details").open = true;
  }
}

function remember(form) {
  for (const field of form.querySelectorAll("[data-remember]")) {
    const last = kept(LAST + field.name, "");
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
    for (const field of form.querySelectorAll("[data-remember]")) keep(LAST + field.name, field.value);
    const files = form.querySelector("[type=file]");
    if (files && files.files.length) sendFiles(form);
    else enqueue(form);
  });
}

// --- a scanner types the code of a vial, and Enter, into the field that has the cursor
const CODE = /(?:https?:\/\/\S+\/s\/([0-9A-Z]{11})|^(?=.*[A-DF-Z])([0-9A-Z]{11}))\/?$/i;
// A code alone after what was typed is told from a number by its check sign.
const CODE_AFTER_TEXT = /(?=.*[A-DF-Z])([0-9A-HJKMNP-TV-Z]{10}[0-9A-HJKMNP-Z])\/?$/i;
const SIGNS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ", CHECKS = SIGNS + "*~$=U";  // as in sciagent/domain/lab_messages_and_codes.py

function codeIn(text) {
  const whole = CODE.exec(text);
  if (whole) return { index: whole.index, code: whole[1] || whole[2] };
  const last = CODE_AFTER_TEXT.exec(text);
  if (!last) return null;
  const signs = last[1].toUpperCase();
  let number = 0;  // below 2 ** 50, thus exact
  for (const sign of signs.slice(0, -1)) number = number * SIGNS.length + SIGNS.indexOf(sign);
  return CHECKS[number % CHECKS.length] === signs.slice(-1) ? { index: last.index, code: last[1] } : null;
}

function scanned(form) {
  const field = document.activeElement, isVial = field.id === "sample", scan = field.form === form && codeIn(field.value);
  if (!scan || !isVial && !field.closest(".measure")) return false;
  field.value = isVial ? scan.code : field.value.slice(0, scan.index);
  field.dispatchEvent(new Event("input", { bubbles: true }));
  if (isVial) form.querySelector(".measure input, .grade input").focus();
  else if (hasChanges(form)) showFault(form, "A vial was scanned before this answer was saved: save it, then scan the vial again");
  else { localStorage.removeItem(DRAFT + form.dataset.task); location.assign("/scan?code=" + encodeURIComponent(scan.code)); }
  return true;
}

// --- a session that has ended: the password is asked for over the form
function askPassword(then) {
  if (document.querySelector("dialog[open]")) return;
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
    try { response = await fetch("/login", { method: "POST", body: data, headers: { Accept: "application/json" } }); } catch { fault.hidden = false; fault.textContent = "No network; try again."; return; }
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) { fault.hidden = false; fault.textContent = answer.detail || "Try again."; return; }
    csrf = answer.csrf;
    document.body.dataset.csrf = csrf;
    for (const field of document.querySelectorAll("input[name=csrf]")) field.value = csrf;
    dialog.close();
    then();
  });
  dialog.addEventListener("close", () => dialog.remove());
  dialog.showModal();
}

// --- times: the server writes UTC, which stays without scripts
const twoDigits = (number) => String(number).padStart(2, "0");
function localTimes(root) {
  for (const element of root.querySelectorAll("time[data-shows]")) {
    const at = new Date(element.dateTime), shows = element.dataset.shows;
    if (Number.isNaN(at.getTime())) continue;
    const day = [at.getFullYear(), twoDigits(at.getMonth() + 1), twoDigits(at.getDate())].join("-"), minute = twoDigits(at.getHours()) + ":" + twoDigits(at.getMinutes());
    element.title = element.textContent;
    element.textContent = shows === "day" ? day : shows === "minute" ? day + " " + minute : minute + ":" + twoDigits(at.getSeconds());
  }
}
// Whether a page that was fetched is older than the one that is shown, since answers may overtake each other.
function isOlder(page) {
  const [fresh, shown] = [page, document].map((each) => each.querySelector("#as-of time"));
  return fresh && shown && fresh.dateTime < shown.dateTime;
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
  const response = await fetch(location.href, { headers: { Accept: "text/html", "X-Background": "yes" } }).catch(() => null);
  if (!response || !response.ok || response.redirected) return;
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  if (isOlder(page)) return;
  localTimes(page);
  for (const part of document.querySelectorAll("[data-live]")) {
    const fresh = page.getElementById(part.id);
    if (fresh && fresh.innerHTML !== part.innerHTML && !part.contains(document.activeElement) && !part.querySelector("input:checked")) part.replaceWith(fresh);
    if (fresh && fresh.dataset.again) setTimeout(renew, 1000 * Number(fresh.dataset.again));  // it shows older figures
  }
}

localTimes(document);
for (const form of document.querySelectorAll("form[data-task]")) watch(form);
for (const button of document.querySelectorAll("[data-print]")) { button.hidden = false; button.addEventListener("click", () => print()); }
if (login) follow();
