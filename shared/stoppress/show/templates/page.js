// Loads the content, refreshes it each minute while the page is visible, and keeps relative times current.
(() => {
  const content = document.getElementById("content"), failed = document.getElementById("failed"), read = document.getElementById("read");
  const { question, moment } = content.dataset;
  let ahead = 0, at = null; // how far the stack's clock is ahead of the reader's, and when the stack could be read last
  const distance = (ms) => {
    const minutes = Math.floor(Math.abs(ms) / 60000), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
    if (minutes < 1) return ms > 0 ? "now" : "just now";
    const words = days > 2 ? `${days} days` : hours ? `${hours} h ${minutes % 60} min` : `${minutes} min`;
    return ms > 0 ? `in ${words}` : `${words} ago`;
  };
  const tick = () => {
    const now = Date.now() + ahead;
    for (const time of content.querySelectorAll("time[data-relative]")) time.textContent = distance(Date.parse(time.dateTime) - now);
    if (at) read.textContent = `updated ${distance(at - now)}`;
  };
  const filter = () => {
    const field = document.getElementById("filter");
    if (!field) return;
    field.parentElement.hidden = false;
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const story of content.querySelectorAll(".story")) story.hidden = !words.every((word) => story.textContent.toLowerCase().includes(word));
    const older = document.getElementById("older");
    if (older && words.length) older.open = true;
  };
  const show = () => {
    const time = content.querySelector("#read-at time");
    if (!time) return;
    at = Date.parse(time.dateTime);
    ahead = at - Date.now();
    filter();
    tick();
  };
  const load = async () => {
    try {
      const answer = await fetch(`?part=content&q=${encodeURIComponent(question)}&at=${encodeURIComponent(moment)}`, { cache: "no-store" });
      if (!answer.ok) throw new Error(answer.status);
      const html = await answer.text();
      const typed = document.getElementById("filter"), open = [...content.querySelectorAll("details[open]")].map((part) => part.id);
      const focused = typed && document.activeElement === typed;
      content.innerHTML = html;
      for (const id of open) document.getElementById(id)?.setAttribute("open", "");
      const field = document.getElementById("filter");
      if (field && typed) field.value = typed.value;
      if (field && focused) field.focus();
      failed.hidden = true;
      show();
    } catch {
      const last = at ? `It was read last at ${new Date(at).toLocaleTimeString()}.` : "";
      failed.textContent = `The stack cannot be read. ${last} `;
      const retry = document.createElement("button");
      retry.textContent = "Try again";
      retry.onclick = load;
      failed.append(retry);
      failed.hidden = false;
      if (!at) content.textContent = "";
    }
  };
  content.addEventListener("input", filter);
  setInterval(tick, 20000);
  const refresh = () => document.hidden || load();
  document.addEventListener("visibilitychange", refresh);
  setInterval(refresh, 60000);
  if (content.querySelector("#read-at")) show();
  else load();
})();
