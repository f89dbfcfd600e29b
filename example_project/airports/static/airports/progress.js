// Keeps the figures of an import page up to date until every job has run, then loads the page once
// more for the rows that were refused. Without scripts the page reloads itself instead.
"use strict";

const panel = document.getElementById("progress");
const bar = panel.querySelector("progress");
const format = new Intl.NumberFormat(document.documentElement.lang);

async function look() {
  let wait = 500;
  try {
    const response = await fetch(panel.dataset.url, { headers: { Accept: "application/json" } });
    if (!response.ok) throw new Error(response.statusText);
    const progress = await response.json();
    bar.value = progress.done;
    for (const place of panel.querySelectorAll("[data-figure]")) {
      place.textContent = format.format(progress[place.dataset.figure]);
    }
    if (progress.finished) {
      window.location.reload();
      return;
    }
  } catch {
    wait = 3000; // the site is restarting or the network is away: ask again, less often
  }
  window.setTimeout(look, wait);
}

look();
