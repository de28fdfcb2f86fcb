// Shows, for the point of every series nearest to the pointer, its value.
for (const figure of document.querySelectorAll("figure[data-series]")) {
  const { x, lines, left, right, width, label } = JSON.parse(figure.dataset.series);
  const svg = figure.querySelector("svg"), cursor = svg.querySelector(".cursor"), tip = figure.appendChild(document.createElement("div"));
  tip.className = "tip";
  const hide = () => { tip.style.visibility = cursor.style.visibility = "hidden"; };
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("pointermove", event => {
    const box = svg.getBoundingClientRect(), at = (event.clientX - box.left) * width / box.width;
    let nearest = -1;
    x.forEach((p, i) => { if (nearest < 0 || Math.abs(p[0] - at) < Math.abs(x[nearest][0] - at)) nearest = i; });
    if (nearest < 0 || at < left - 8 || at > right + 8) return hide();
    tip.replaceChildren(`${label} ${x[nearest][1]}`);
    for (const line of lines) {
      if (!line.values[nearest]) continue;
      tip.append(document.createElement("br"), `${line.name}${line.name && ": "}${line.values[nearest]}`);
    }
    cursor.setAttribute("x1", x[nearest][0]);
    cursor.setAttribute("x2", x[nearest][0]);
    tip.style.visibility = cursor.style.visibility = "visible";
    const frame = figure.getBoundingClientRect(), px = box.left - frame.left + x[nearest][0] * box.width / width;
    tip.style.left = `${px + 10 + tip.offsetWidth > frame.width ? Math.max(0, px - 10 - tip.offsetWidth) : px + 10}px`;
    tip.style.top = `${event.clientY - frame.top + 14}px`;
  });
}
