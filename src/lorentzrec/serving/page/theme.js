/* Light or dark: the reader's choice if there is one, else that of the system. Says "themechange" on the document. */
{
  const KEY = "lorentzrec-theme";
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;

  const chosen = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage is forbidden: the system's choice holds
    }
  };

  const apply = () => {
    root.dataset.theme = chosen() ?? (system.matches ? "dark" : "light");
    const button = document.getElementById("theme");
    if (button) button.textContent = root.dataset.theme === "dark" ? "Light" : "Dark";
    document.dispatchEvent(new Event("themechange"));
  };

  apply();
  system.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", () => {
      try {
        localStorage.setItem(KEY, root.dataset.theme === "dark" ? "light" : "dark");
        apply();
      } catch {
        root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
        document.dispatchEvent(new Event("themechange"));
      }
    });
  });
}
