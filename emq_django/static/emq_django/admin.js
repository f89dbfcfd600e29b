// Keeps the live part of a page fresh by asking the same address for that part alone, selects rows
// of a list, takes a double click for one, and goes on with an action on all that match. Without
// this file everything works.
"use strict";
{
  const MOST_SECONDS = 60;
  const STORE = "emq-refresh-s";

  function start() {
    const live = document.querySelector("[data-emq-live]");
    const box = document.querySelector("[data-emq-refresh]");
    if (!live || !box) {
      return;
    }
    const choice = box.querySelector("select");
    const state = box.querySelector("[data-emq-state]");
    const alert = box.querySelector("[data-emq-alert]"); // read out; the ticking state is not
    const texts = box.dataset;
    let updated = Date.now();
    let failures = 0;
    let timer = 0;
    let asking = null;
    let stopped = false;

    try {
      const kept = localStorage.getItem(STORE);
      if ([...choice.options].some((option) => option.value === kept)) {
        choice.value = kept;
      }
    } catch {
      // Storage may be closed to us; the choice then lasts as long as the page.
    }
    box.hidden = false;

    function say(text, loud = "") {
      state.textContent = text;
      if (alert.textContent !== loud) {
        alert.textContent = loud;
      }
    }

    function inUse() {
      const table = live.querySelector("table, pre");
      return Boolean(
        live.querySelector("input[type=checkbox]:checked") ||
          (table && table.matches(":hover")) ||
          (table && table.parentElement.contains(document.activeElement)) ||
          String(document.getSelection()).length,
      );
    }

    function plan() {
      clearTimeout(timer);
      const every = Number(choice.value);
      if (every && !stopped) {
        timer = setTimeout(tick, Math.min(every * 2 ** failures, MOST_SECONDS) * 1000);
      }
    }

    async function tick() {
      if (document.hidden || inUse()) {
        say(texts.paused);
        plan();
        return;
      }
      if (!asking) {
        asking = ask().finally(() => {
          asking = null;
        });
        await asking;
      }
      plan();
    }

    async function ask() {
      const address = new URL(location.href);
      address.searchParams.set("_fragment", "1");
      const patience = new AbortController();
      const alarm = setTimeout(() => patience.abort(), 20000);
      live.setAttribute("aria-busy", "true");
      try {
        const answer = await fetch(address, { credentials: "same-origin", signal: patience.signal });
        if (answer.redirected || answer.status === 403) {
          stopped = true;
          say("", texts.signedOut);
          return;
        }
        if (!answer.ok || !answer.headers.get("X-Emq-Fragment")) {
          throw new Error(String(answer.status));
        }
        show(await answer.text());
        failures = 0;
        updated = Date.now();
        say(texts.updated.replace("%s", "0"));
      } catch {
        failures += 1;
        say("", texts.failed);
      } finally {
        clearTimeout(alarm);
        live.setAttribute("aria-busy", "false");
      }
    }

    function show(text) {
      if (inUse()) {
        return; // somebody began to read while the answer was on its way
      }
      const scroller = live.querySelector(".emq-scroll");
      const aside = scroller ? scroller.scrollLeft : 0;
      const focused = live.contains(document.activeElement)
        ? document.activeElement.getAttribute("href")
        : null;
      const fresh = new DOMParser().parseFromString(text, "text/html");
      live.replaceChildren(...fresh.body.childNodes);
      prepare(live);
      const next = live.querySelector(".emq-scroll");
      if (next) {
        next.scrollLeft = aside;
      }
      if (focused) {
        const again = [...live.querySelectorAll("a")].find((a) => a.getAttribute("href") === focused);
        if (again) {
          again.focus({ preventScroll: true });
        }
      }
    }

    choice.addEventListener("change", () => {
      try {
        localStorage.setItem(STORE, choice.value);
      } catch {
        // see above
      }
      failures = 0;
      plan();
    });
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden && Number(choice.value) && !stopped) {
        tick();
      }
    });
    setInterval(() => {
      if (!failures && !stopped && Number(choice.value)) {
        say(texts.updated.replace("%s", String(Math.round((Date.now() - updated) / 1000))));
      }
    }, 5000);
    plan();
  }

  // Rows of a list: all at once, a range by shift and click, and how many there are.
  function boxesOf(form) {
    return [...form.querySelectorAll("input[type=checkbox][name=id]")];
  }

  function count(form) {
    const boxes = boxesOf(form);
    const chosen = boxes.filter((box) => box.checked).length;
    const place = form.querySelector("[data-emq-chosen]");
    const all = form.querySelector("[data-emq-all]");
    if (place) {
      place.textContent = chosen ? place.dataset.text.replace("%s", String(chosen)) : "";
    }
    if (all) {
      all.checked = chosen > 0 && chosen === boxes.length;
      all.indeterminate = chosen > 0 && chosen < boxes.length;
    }
  }

  function prepare(root) {
    for (const all of root.querySelectorAll("[data-emq-all]")) {
      all.hidden = false;
    }
  }

  let lastClicked = null;
  document.addEventListener("click", (event) => {
    const box = event.target;
    const form = box instanceof HTMLInputElement ? box.closest("form[data-emq-select]") : null;
    if (!form || box.type !== "checkbox") {
      return;
    }
    const boxes = boxesOf(form);
    if (box.matches("[data-emq-all]")) {
      for (const one of boxes) {
        one.checked = box.checked;
      }
    } else if (event.shiftKey && lastClicked && boxes.includes(lastClicked)) {
      const [from, to] = [boxes.indexOf(lastClicked), boxes.indexOf(box)].sort((a, b) => a - b);
      for (const one of boxes.slice(from, to + 1)) {
        one.checked = box.checked;
      }
    }
    lastClicked = box;
    count(form);
  });

  // The second click of a double click would do once more what the first one asked for.
  const DOUBLE_MS = 2000;
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method !== "post" || !form.closest(".emq-page")) {
      return;
    }
    if (form.dataset.emqSent) {
      event.preventDefault();
      return;
    }
    form.dataset.emqSent = "1";
    setTimeout(() => delete form.dataset.emqSent, DOUBLE_MS); // a download leaves the page here
  });

  // A moment to press "Stop"; the page after each step comes with the next state.
  function goOn() {
    const form = document.querySelector("form[data-emq-continue]");
    if (!form) {
      return;
    }
    const place = form.querySelector("[data-emq-going]");
    place.textContent = place.dataset.text;
    const timer = setTimeout(() => form.querySelector("[name=continue]").click(), 700);
    form.addEventListener("submit", () => clearTimeout(timer));
  }

  prepare(document);
  goOn();
  start();
}
