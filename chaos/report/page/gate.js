// The filter: all cells, failed cells, or inconclusive cells.

(() => {
  const cells = [...document.querySelectorAll("article[data-state]")];
  const buttons = [...document.querySelectorAll("[data-show]")];
  for (const button of buttons) {
    button.addEventListener("click", () => {
      const wanted = button.dataset.show;
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
      for (const cell of cells) cell.hidden = wanted !== "all" && cell.dataset.state !== wanted;
      const n = cells.filter(cell => !cell.hidden).length;
      document.getElementById("how-many").textContent = `${n} ${n === 1 ? "cell" : "cells"}`;
    });
  }
  // a link from the matrix to a cell that is filtered away shows all again
  addEventListener("hashchange", () => {
    const target = document.getElementById(location.hash.slice(1));
    if (target && target.hidden) buttons[0].click();
  });
})();
