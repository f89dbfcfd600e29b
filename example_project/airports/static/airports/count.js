// Waits until the count that was asked for has ended, then shows what it found. Without scripts the
// page goes there by itself.
"use strict";

const line = document.getElementById("count");

async function look() {
  let wait = 500;
  try {
    const response = await fetch(line.dataset.url, { headers: { Accept: "application/json" } });
    if (response.status === 404 || (response.ok && (await response.json()).finished)) {
      window.location.replace(line.dataset.then);
      return;
    }
    if (!response.ok) throw new Error(response.statusText);
  } catch {
    wait = 3000; // the site is restarting or the network is away: ask again, less often
  }
  window.setTimeout(look, wait);
}

look();
