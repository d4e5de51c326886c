// What the page does apart from the picture: unfold what a link leads to, copy the command, unfold all for print.
"use strict";
document.documentElement.classList.add("js");

(() => {
  const unfold = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let e = target; e; e = e.parentElement) if (e.tagName === "DETAILS") e.open = true;
    target.scrollIntoView({ block: target.matches("tr, .lane") ? "center" : "start" });
  };
  addEventListener("hashchange", unfold);
  unfold();

  let folded = [];
  addEventListener("beforeprint", () => {
    if (document.body.dataset.print === "folded") return; // years of runs would fill a book
    folded = [...document.querySelectorAll("details:not([open], .rest)")];
    for (const e of folded) e.open = true;
  });
  addEventListener("afterprint", () => { for (const e of folded) e.open = false; folded = []; });

  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(source.textContent);
        button.textContent = "Copied";
      } catch {
        // no clipboard for this page: leave the text selected for the reader's own copy
        getSelection().selectAllChildren(source);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
})();
