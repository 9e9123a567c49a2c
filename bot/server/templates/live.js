"use strict";
// Keeps the page of a run up to date while it works. Without scripts, the page reloads by itself.
(() => {
  const live = document.getElementById("live");
  const source = new EventSource(live.dataset.events);
  const reload = () => location.reload();
  // A proxy that holds events back must not leave the page as it was.
  const silence = setTimeout(reload, 30000);
  source.addEventListener("update", (event) => {
    clearTimeout(silence);
    const scrolled = live.querySelector(".wide")?.scrollLeft ?? 0;
    live.innerHTML = event.data; // escaped by the server, as the page itself
    const table = live.querySelector(".wide");
    if (table) table.scrollLeft = scrolled;
  });
  source.addEventListener("end", () => {
    source.close();
    reload();
  });
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) setTimeout(reload, 10000);
  });
})();
