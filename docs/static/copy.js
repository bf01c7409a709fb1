// A button on every block of code that a reader would paste; blocks of text and outputs have none.
const LANGUAGES = ["python", "ipython3", "sh", "bash", "toml", "json"];

function addButton(block) {
  const button = document.createElement("button");
  button.className = "copy";
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    const code = block.querySelector("pre").innerText.trimEnd();
    const copied = await navigator.clipboard?.writeText(code).then(() => true, () => false);
    button.textContent = copied ? "Copied" : "Not copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  block.append(button);
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll(LANGUAGES.map((one) => `.highlight-${one}`).join(", ")).forEach(addButton);
});
