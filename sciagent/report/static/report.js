"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const table = document.getElementById("candidates");
  if (table) candidates(table, data);
  const dialog = document.getElementById("viewer");
  if (dialog) viewer(dialog, data.geometries);

  function candidates(table, data) {
    const size = 25;
    const collator = new Intl.Collator("en", { numeric: true });
    const rows = data.rows;
    const body = table.tBodies[0];
    const find = document.getElementById("find");
    const shown = document.getElementById("shown");
    const where = document.getElementById("where");
    const [previous, next] = [document.getElementById("prev"), document.getElementById("next")];
    let order = rows.slice();
    let kept = order;
    let page = 0;
    let by = { column: 0, down: false };

    function raw(row, column) {
      const cell = row[column];
      return Array.isArray(cell) ? cell[0] : cell;
    }

    function compare(a, b) {
      const [x, y] = [raw(a, by.column), raw(b, by.column)].map((value) => (value === "" ? null : value));
      if (x === null || y === null) return x === y ? a[0] - b[0] : x === null ? 1 : -1; // what is unknown comes last
      const sign = by.down ? -1 : 1;
      if (typeof x === "number") return sign * (x - y) || a[0] - b[0];
      return sign * collator.compare(String(x), String(y)) || a[0] - b[0];
    }

    function cell(row, text, numeric, name) {
      const made = row.insertCell();
      if (numeric) made.className = "n";
      if (!name) {
        made.textContent = text;
        return;
      }
      const inner = document.createElement("span");
      inner.className = "badge " + name;
      inner.textContent = text;
      made.append(inner);
    }

    function structure(row, key, text) {
      const made = row.insertCell();
      made.className = "structure";
      if (data.pictures[key]) made.innerHTML = data.pictures[key]; // drawn by sciagent
      const code = document.createElement("code");
      code.textContent = text;
      made.append(code);
    }

    const number = (value) => (value === null ? "–" : value.toFixed(3));

    function draw() {
      const pages = Math.max(1, Math.ceil(kept.length / size));
      page = Math.min(Math.max(page, 0), pages - 1);
      body.replaceChildren();
      for (const row of kept.slice(page * size, (page + 1) * size)) {
        const line = body.insertRow();
        cell(line, row[0], true);
        structure(line, row[8], row[1]);
        if (data.named) cell(line, row[9], false);
        cell(line, row[2] + (row[6] ? ", a seed" : ""), false, row[3]);
        for (const value of row.slice(10)) cell(line, value === null ? "–" : value[1], true);
        cell(line, row[5] === null ? "–" : row[5][1], true);
        cell(line, number(row[4]), true);
      }
      where.textContent = "page " + (page + 1) + " of " + pages;
      shown.textContent = kept.length === rows.length ? "" : kept.length + " found";
      previous.disabled = page === 0;
      next.disabled = page === pages - 1;
    }

    function filter() {
      const text = find.value.trim().toLowerCase();
      kept = text
        ? order.filter((row) => [row[1], row[2], row[7], row[8], row[9]].some((one) => one.toLowerCase().includes(text)))
        : order;
      page = 0;
      draw();
    }

    for (const button of table.querySelectorAll("th button")) {
      button.addEventListener("click", () => {
        const column = Number(button.dataset.column);
        const numeric = column === 0 || (column > 3 && column !== 9);
        by = { column, down: by.column === column ? !by.down : numeric && column !== 0 };
        for (const head of table.querySelectorAll("th")) head.removeAttribute("aria-sort");
        button.closest("th").setAttribute("aria-sort", by.down ? "descending" : "ascending");
        order = rows.slice().sort(compare);
        filter();
      });
    }
    find.addEventListener("input", filter);
    previous.addEventListener("click", () => { page -= 1; draw(); });
    next.addEventListener("click", () => { page += 1; draw(); });
    draw();
  }

  function viewer(dialog, geometries) {
    const box = document.getElementById("viewer-box");
    const title = document.getElementById("viewer-title");
    let stage = null;

    function library() {
      if (!window.$3Dmol) {
        const script = document.createElement("script"); // its hash is in the content security policy
        script.textContent = document.getElementById("viewer-source").textContent;
        document.head.append(script);
      }
      return window.$3Dmol;
    }

    function open(button) {
      const geometry = geometries[button.dataset.key];
      title.textContent = button.dataset.title;
      dialog.showModal();
      const colour = getComputedStyle(dialog).backgroundColor;
      try {
        if (stage === null) stage = library().createViewer(box, { antialias: true });
        stage.setBackgroundColor(rgb(colour));
        stage.removeAllModels();
        stage.addModel(geometry.text, geometry.format);
        stage.setStyle({}, { stick: { radius: 0.14 }, sphere: { scale: 0.26 } });
        if (geometry.format === "cif") stage.addUnitCell();
        stage.resize();
        stage.zoomTo();
        stage.render();
        box.dataset.ready = button.dataset.key;
      } catch (error) {
        box.textContent = "This browser cannot show it: " + error.message;
      }
      box.focus();
    }

    function rgb(text) {
      const parts = (text.match(/\d+(\.\d+)?/g) || ["255", "255", "255"]).slice(0, 3).map(Number);
      return parts.reduce((sum, part) => sum * 256 + Math.round(part), 0);
    }

    for (const button of document.querySelectorAll("button.view3d")) button.addEventListener("click", () => open(button));
    document.getElementById("viewer-close").addEventListener("click", () => dialog.close());
    box.addEventListener("keydown", (event) => {
      const turn = { ArrowLeft: [-10, "y"], ArrowRight: [10, "y"], ArrowUp: [-10, "x"], ArrowDown: [10, "x"] }[event.key];
      const zoom = { "+": 1.15, "=": 1.15, "-": 0.87 }[event.key];
      if (!stage || !(turn || zoom)) return;
      if (turn) stage.rotate(turn[0], turn[1]);
      else stage.zoom(zoom);
      stage.render();
      event.preventDefault();
    });
  }
})();
