// The visitor's choice of light or dark, which this browser remembers. It runs before the page is shown.
"use strict";

const root = document.documentElement;

function chosen() {
  try {
    return localStorage.getItem("theme") ?? "";
  } catch { // storage is turned off
    return "";
  }
}

root.style.colorScheme = chosen();
document.addEventListener("DOMContentLoaded", () => {
  const theme = document.querySelector(".theme");
  if (!theme) return;
  const select = theme.querySelector("select");
  select.value = chosen();
  theme.hidden = false;
  select.addEventListener("change", () => {
    root.style.colorScheme = select.value;
    try {
      localStorage.setItem("theme", select.value);
    } catch { /* it holds for this page */ }
  });
});
