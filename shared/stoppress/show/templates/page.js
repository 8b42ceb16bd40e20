// Keeps the relative times current. The page works without it.
(() => {
  const read = document.querySelector(".read time");
  const ahead = Date.parse(read.dateTime) - Date.now(); // the reader's clock may be wrong
  const age = document.querySelector("[data-age]");
  const text = (ms) => {
    const minutes = Math.floor(Math.abs(ms) / 60000), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
    if (minutes < 1) return "now";
    const words = days > 2 ? `${days} days` : hours ? `${hours} h ${minutes % 60} min` : `${minutes} min`;
    return ms > 0 ? `in ${words}` : `${words} ago`;
  };
  const update = () => {
    const now = Date.now() + ahead;
    for (const time of document.querySelectorAll("time[data-relative]")) time.textContent = text(Date.parse(time.dateTime) - now);
    const since = text(Date.parse(read.dateTime) - now);
    age.textContent = since === "now" ? "" : `, ${since}`;
  };
  setInterval(update, 20000);
})();
