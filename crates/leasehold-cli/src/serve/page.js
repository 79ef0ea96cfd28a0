// Updates the page. Sets texts and never markup, so that no untrusted text becomes markup.
"use strict";
(() => {
  const events = document.body.dataset.events;
  if (!events || !window.EventSource) return;
  const table = document.querySelector("tbody");
  const lock = table.dataset.lock;
  const titles = Array.from(document.querySelectorAll("table.locks th"), (cell) => cell.textContent);
  const isNumber = Array.from(document.querySelectorAll("thead th"), (cell) => cell.className === "number");
  const connection = document.getElementById("connection");
  const texts = ["summary", "status", "counts"];
  // The server sends a message at least every three seconds.
  const silence = 10000;
  let heard = Date.now();
  let rows = new Map();
  let source = null;
  let later = null;
  let opened = 0;

  function makeRow(key, name, cells) {
    const row = document.createElement("tr");
    row.className = name;
    cells.forEach((text, at) => {
      const cell = row.insertCell();
      if (isNumber[at]) cell.className = "number";
      if (titles[at]) cell.dataset.title = titles[at];
      if (lock && at === 0) {
        const link = document.createElement("a");
        link.href = lock + encodeURIComponent(key);
        link.textContent = text;
        cell.append(link);
      } else {
        cell.textContent = text;
      }
    });
    return row;
  }

  // Changes the texts of an existing row, so that a focused link keeps the focus.
  function changeRow(row, name, cells) {
    row.className = name;
    cells.forEach((text, at) => {
      const place = lock && at === 0 ? row.cells[at].firstChild : row.cells[at];
      if (place.textContent !== text) place.textContent = text;
    });
  }

  function show(list) {
    const next = new Map();
    list.forEach(([key, name, cells], at) => {
      let row = rows.get(key);
      if (!row) row = makeRow(key, name, cells);
      else if (cells) changeRow(row, name, cells);
      next.set(key, row);
      if (table.rows[at] !== row) table.insertBefore(row, table.rows[at] || null);
    });
    while (table.rows.length > list.length) table.lastElementChild.remove();
    rows = next;
  }

  // The number of pages may have changed since the page was loaded.
  function turn(pages) {
    const nav = document.querySelector("nav");
    if (!nav) return;
    const page = Math.min(Number(new URLSearchParams(location.search).get("page")) || 1, pages);
    nav.querySelectorAll("a").forEach((link) => link.remove());
    for (const [to, name] of [[page - 1, "previous"], [page + 1, "next"]]) {
      if (to < 1 || to > pages) continue;
      const address = new URL(location.href);
      address.searchParams.set("page", to);
      const link = document.createElement("a");
      link.href = address.href;
      link.textContent = name;
      nav.append(" ", link);
    }
  }

  function take(message) {
    if (message.all) {
      rows = new Map();
      table.replaceChildren();
    }
    for (const name of texts) {
      const place = document.getElementById(name);
      if (place && name in message) place.textContent = message[name];
    }
    if ("warning" in message) document.getElementById("status").className = message.warning ? "warning" : "";
    if (message.pages) turn(message.pages);
    if (message.rows) show(message.rows);
    if (message.holders) {
      for (const form of document.querySelectorAll("form.unlock")) {
        form.querySelector("fieldset").disabled = !message.holders.includes(form.dataset.holder);
      }
    }
  }

  function close() {
    clearTimeout(later);
    if (source) source.close();
    source = null;
  }

  // Shows the age of the page.
  function say(what) {
    const seconds = Math.round((Date.now() - heard) / 1000);
    connection.textContent = `${what} for ${seconds} s: this page is out of date.`;
  }

  function hear() {
    heard = Date.now();
    connection.textContent = "";
  }

  function open() {
    close();
    source = new EventSource(events);
    opened = Date.now();
    source.onmessage = (event) => {
      hear();
      take(JSON.parse(event.data));
    };
    source.addEventListener("alive", hear);
    source.onerror = () => {
      say("No connection to leasehold serve");
      close();
      later = setTimeout(open, 2000);
    };
  }

  // A stalled connection causes no error event.
  setInterval(() => {
    if (!source) return;
    if (Date.now() - heard > silence) say("No message from leasehold serve");
    if (Date.now() - Math.max(opened, heard) > silence) open();
  }, 1000);

  // A hidden page has no connection.
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  if (!document.hidden) open();
})();
