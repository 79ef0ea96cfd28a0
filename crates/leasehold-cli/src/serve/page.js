// Updates the page. Sets text content, never markup, because lock names are untrusted.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("script");
  const events = document.body.dataset.events;
  const byId = (id) => document.getElementById(id);

  // Times of day in the time zone of the browser.
  const sameDay = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const otherDay = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  function moment(millis) {
    const at = new Date(millis);
    return (at.toDateString() === new Date().toDateString() ? sameDay : otherDay).format(at);
  }

  // Insecure contexts have no clipboard object, such as plain HTTP from another machine.
  async function copy(button) {
    const text = button.dataset.command;
    let done = false;
    try {
      await navigator.clipboard.writeText(text);
      done = true;
    } catch {
      const field = document.createElement("textarea");
      field.value = text;
      document.body.append(field);
      field.select();
      done = document.execCommand("copy");
      field.remove();
      button.focus();
    }
    button.textContent = done ? "copied" : "failed";
    setTimeout(() => (button.textContent = "copy"), 1500);
  }

  function makeElement(kind, more) {
    if (kind === "link" && more) return document.createElement("a");
    if (kind === "time" && more) return document.createElement("time");
    if (kind === "command" && more) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "copy";
      button.addEventListener("click", () => copy(button));
      return button;
    }
    return null;
  }

  // Updates only changed elements. Replacing an element would drop its focus.
  function setText(place, text) {
    if (place.textContent !== text) place.textContent = text;
  }

  function setCell(cell, kind, value) {
    const [text, more] = Array.isArray(value) ? value : [value, null];
    let place = cell.firstElementChild;
    if (!place === Boolean(more)) {
      place = makeElement(kind, more);
      cell.replaceChildren(...(place ? [place] : []));
    }
    if (!place) {
      setText(cell, text);
    } else if (kind === "time") {
      setText(place, (text.startsWith("<") ? "< " : "") + moment(Number(more)));
      place.title = new Date(Number(more)).toString();
    } else if (kind === "command") {
      place.dataset.command = more;
      place.title = more;
      place.setAttribute("aria-label", `copy: ${more}`);
    } else {
      setText(place, text);
      if (place.getAttribute("href") !== more) place.setAttribute("href", more);
    }
    if (kind === "long" && cell.title !== text) cell.title = text;
    cell.classList.toggle("none", text === "–");
  }

  class Table {
    constructor(table) {
      this.body = table.tBodies[0];
      this.heads = Array.from(table.tHead.rows[0].cells, (cell) => ({ kind: cell.classList[0], title: cell.textContent }));
      this.rows = new Map();
    }

    clear() {
      this.rows = new Map();
      this.body.replaceChildren();
    }

    makeRow() {
      const row = document.createElement("tr");
      for (const { kind, title } of this.heads) {
        const cell = row.insertCell();
        cell.className = kind;
        cell.dataset.title = title;
      }
      return row;
    }

    show(list) {
      const next = new Map();
      list.forEach(([key, name, cells], at) => {
        const row = this.rows.get(key) || this.makeRow();
        if (cells) {
          row.className = name;
          cells.forEach((value, column) => setCell(row.cells[column], this.heads[column].kind, value));
        }
        next.set(key, row);
        if (this.body.rows[at] !== row) this.body.insertBefore(row, this.body.rows[at] || null);
      });
      while (this.body.rows.length > list.length) this.body.lastElementChild.remove();
      this.rows = next;
    }
  }

  const tables = new Map(Array.from(document.querySelectorAll("main table"), (table) => [table.id, new Table(table)]));

  // The number of pages may have changed since the load.
  function turn(pages) {
    const page = Math.min(Number(new URLSearchParams(location.search).get("page")) || 1, pages);
    for (const nav of document.querySelectorAll("nav.pages")) {
      nav.querySelectorAll("a:not(.reset)").forEach((link) => link.remove());
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
  }

  // The title shows the number of problems in a background tab.
  const title = document.title;
  function tile(id, text) {
    for (const place of document.querySelectorAll(`[data-tile="${CSS.escape(id)}"]`)) {
      setText(place, text);
      place.parentElement.classList.toggle("zero", text === "0");
    }
    if (id === "problems") document.title = text === "0" ? title : `(${text}) ${title}`;
  }

  function take(message) {
    if (message.all) tables.forEach((table) => table.clear());
    for (const name of ["summary", "status"]) {
      if (name in message) setText(byId(name), message[name]);
    }
    if ("warning" in message) byId("status").className = message.warning ? "warning" : "";
    for (const [id, text] of Object.entries(message.tiles || {})) tile(id, text);
    for (const [id, changes] of Object.entries(message.tables || {})) {
      const counts = byId("counts");
      if (counts && "counts" in changes) setText(counts, changes.counts);
      if (changes.pages) turn(changes.pages);
      if (changes.rows && tables.has(id)) tables.get(id).show(changes.rows);
    }
    if (message.holders) {
      for (const form of document.querySelectorAll("form.unlock")) {
        form.querySelector("fieldset").disabled = !message.holders.includes(form.dataset.holder);
      }
    }
  }

  // The age by the browser's clock. `performance.now` ignores changes of the system time.
  const clock = () => performance.now();
  // The server sends a message at least every second.
  const silence = 4000;
  const patience = 8000;
  // Scans are late, or receive no reply.
  const late = 5000;
  let heard = clock();
  let age = null;
  let what = "No message from leasehold serve";
  let source = null;
  let again = null;
  let opened = 0;

  function showAge() {
    const quiet = clock() - heard;
    const isOld = quiet > silence || !source;
    setText(byId("connection"), isOld ? `${what} for ${Math.round(quiet / 1000)} s: this page is out of date.` : "");
    const isLate = !isOld && age + quiet > late;
    root.classList.toggle("old", isOld);
    root.classList.toggle("late", isLate);
    const seconds = Math.floor((age + quiet) / 1000);
    const text = seconds < 1 ? "<1 s" : seconds < 120 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`;
    setText(byId("age"), age === null ? "" : `${isOld ? "stale" : isLate ? "late" : "live"} · ${text} old`);
  }

  function close() {
    clearTimeout(again);
    if (source) source.close();
    source = null;
  }

  function open() {
    close();
    source = new EventSource(events);
    opened = clock();
    source.onmessage = (event) => {
      const message = JSON.parse(event.data);
      heard = clock();
      what = "No message from leasehold serve";
      age = "age" in message ? message.age : age;
      take(message);
      showAge();
    };
    source.onerror = () => {
      what = "No connection to leasehold serve";
      close();
      again = setTimeout(open, 2000);
      showAge();
    };
  }

  if (events && window.EventSource) {
    // A stalled connection fires no error event.
    setInterval(() => {
      if (document.hidden) return;
      if (source && clock() - Math.max(opened, heard) > patience) open();
      showAge();
    }, 250);
    // A hidden page closes its connection.
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) return close();
      heard = clock();
      open();
    });
    if (!document.hidden) open();
  }

  // Keyboard shortcuts. The focused link selects its row.
  const keys = [
    ["/", "filter"], ["j  k", "next and previous row"], ["Enter", "open the row"], ["c", "copy the command of the row"],
    ["n  p", "next and previous page of rows"], ["l", "locks"], ["w", "waits"], ["h", "history"], ["?", "these keys"],
  ];
  let help = null;

  function toggleHelp() {
    if (!help) {
      help = document.createElement("dialog");
      const list = document.createElement("dl");
      for (const [key, text] of keys) {
        const [name, meaning] = [document.createElement("dt"), document.createElement("dd")];
        name.textContent = key;
        meaning.textContent = text;
        list.append(name, meaning);
      }
      help.append(list);
      help.addEventListener("click", () => help.close());
      document.body.append(help);
    }
    if (help.open) help.close();
    else help.showModal();
  }

  function move(by) {
    const links = Array.from(document.querySelectorAll("main tbody td.link a"));
    const at = links.indexOf(document.activeElement?.closest("tr")?.querySelector("td.link a"));
    const to = links[Math.min(Math.max(at + by, 0), links.length - 1)];
    if (to) to.focus();
  }

  function press(selector) {
    const target = document.querySelector(selector);
    if (target) target.click();
    return Boolean(target);
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const row = document.activeElement?.closest("tr");
    const page = (name) => Array.from(document.querySelectorAll("nav.pages a")).find((link) => link.textContent === name);
    const actions = {
      "/": () => document.querySelector("input[type=search]")?.focus(),
      "?": toggleHelp,
      j: () => move(1),
      k: () => move(-1),
      c: () => row?.querySelector("button.copy")?.click(),
      n: () => page("next")?.click(),
      p: () => page("previous")?.click(),
      l: () => press("header nav a:nth-child(1)"),
      w: () => press("header nav a:nth-child(2)"),
      h: () => press("header nav a:nth-child(3)"),
    };
    if (!Object.hasOwn(actions, event.key)) return;
    event.preventDefault();
    actions[event.key]();
  });
})();
