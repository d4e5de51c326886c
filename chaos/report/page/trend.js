// The filter: all trends, those with a regression, or those worth a look.

(() => {
  const trends = [...document.querySelectorAll(".trend")];
  const buttons = [...document.querySelectorAll("[data-show]")];
  const wanted = { all: () => true, regression: state => state === "regression", look: state => state !== "well" };
  for (const button of buttons) {
    button.addEventListener("click", () => {
      for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
      for (const trend of trends) trend.hidden = !wanted[button.dataset.show](trend.dataset.state);
      const n = trends.filter(trend => !trend.hidden).length;
      document.getElementById("how-many").textContent = `${n} ${n === 1 ? "trend" : "trends"}`;
    });
  }
  // a link into a trend that is filtered away shows all again
  addEventListener("hashchange", () => {
    const target = document.getElementById(location.hash.slice(1));
    if (target && target.hidden) buttons[0].click();
  });
})();
