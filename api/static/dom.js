// Building and patching elements, so that focus and scroll survive each refresh.

const SVG = "http://www.w3.org/2000/svg";

/** An element; `props` are attributes, `on…` listeners, `text`, or `class`; null and false are left out. */
export function el(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** The same for SVG. */
export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Set text only when it differs: a status region is then read out only on a change. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Set or remove attributes. */
export function setAttributes(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) node.removeAttribute(name);
    else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value === true ? "" : value);
  }
}

/** Children of `parent` follow `items`; nodes are kept by key. `create(item)` gives a node, `update(node, item)` fills it. */
export function keyed(parent, items, keyOf, create, update) {
  const kept = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let node = kept.get(key);
    if (node) kept.delete(key);
    else {
      node = create(item);
      node.dataset.key = key;
    }
    update(node, item);
    if (node === place) place = place.nextElementSibling;
    else parent.insertBefore(node, place);
  }
  for (const node of kept.values()) node.remove();
}

/** Replace the children only when `signature` differs from the last one drawn here. */
export function redrawn(node, signature, build) {
  const mark = JSON.stringify(signature);
  if (node.dataset.drawn === mark) return;
  node.dataset.drawn = mark;
  node.replaceChildren(...[build()].flat().filter(Boolean));
}
