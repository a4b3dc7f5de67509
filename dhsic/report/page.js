"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      const number = (cell) =>
        Number(cell.textContent.replaceAll(",", "").replace("inf", "Infinity") || NaN);
      const compare = (left, right) => {
        const [a, b] = [left, right].map((row) => row.cells[column]);
        // What is no number is compared as text, behind all numbers.
        return isNaN(number(a)) - isNaN(number(b))
          || number(a) - number(b)
          || a.textContent.localeCompare(b.textContent, "en", { numeric: true });
      };
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort((left, right) => sign * compare(left, right)));
    });
  });
}
