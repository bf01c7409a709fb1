/* Light or dark: the reader's choice if there is one, else that of the system. Says "themechange" on the document. */
{
  const KEY = "lorentzrec-theme";
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;

  /** @type {string | null} */
  let chosen = null;
  try {
    chosen = localStorage.getItem(KEY);
  } catch {} // storage is forbidden: the system's choice holds until the reader makes one for this page

  const apply = () => {
    root.dataset.theme = chosen ?? (system.matches ? "dark" : "light");
    const button = document.getElementById("theme");
    if (button) button.textContent = root.dataset.theme === "dark" ? "Light" : "Dark";
    document.dispatchEvent(new Event("themechange"));
  };

  apply();
  system.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", () => {
      chosen = root.dataset.theme === "dark" ? "light" : "dark";
      try {
        localStorage.setItem(KEY, chosen);
      } catch {} // forgotten with this page
      apply();
    });
  });
}
