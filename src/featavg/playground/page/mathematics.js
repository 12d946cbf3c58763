// Formulas as MathML from a short notation, for the texts of the page: sqrt(d/k), mu_j, 10^12.

const GREEK = { mu: "μ", sigma: "σ", xi: "ξ", alpha: "α", eta: "η", lambda: "λ", sum: "∑", in: "∈", approx: "≈", times: "·", minus: "−", inf: "∞", dots: "…" };
const OPERATORS = /[=+\-*(),|<>]/;

// Replaces $...$ in a text. Roots and fractions need MathML; indices and powers alone are set in
// the text's own font, since a browser without a mathematical font places them badly.
export function typeset(html) {
  return html.replace(/\$([^$]+)\$/g, (_, source) => {
    const mathml = rowOf(tokens(source));
    if (/<(msqrt|mfrac)>/.test(mathml)) return `<math>${mathml}</math>`;
    return `<span class="formula">${inText(mathml)}</span>`;
  });
}

function inText(mathml) {
  let text = mathml;
  for (const [kind, tag] of [["msub", "sub"], ["msup", "sup"]]) {
    const form = new RegExp(`<${kind}>(<m[ino]>[^<]*</m[ino]>)(<mrow>.*?</mrow>|<m[ino]>[^<]*</m[ino]>)</${kind}>`, "g");
    text = text.replace(form, `$1<${tag}>$2</${tag}>`);
  }
  return text
    .replace(/<mi>([^<]{1,2})<\/mi>/g, "<i>$1</i>")
    .replace(/<mo>([=≈+∈])<\/mo>/g, " $1 ")
    .replace(/<mo>,<\/mo>/g, ", ")
    .replace(/<\/?m[inor]o?w?>/g, "");
}

function tokens(source) {
  return source.match(/[A-Za-z]+|\d+(?:\.\d+)?|\S/g) ?? [];
}

// A row of terms; `end` stops at a closing bracket.
function rowOf(list, end = null) {
  const out = [];
  while (list.length && list[0] !== end) {
    const term = atom(list);
    if (list[0] === "/") {
      list.shift();
      out.push(`<mfrac>${term}${below(list)}</mfrac>`);
    } else {
      out.push(term);
    }
  }
  if (end) list.shift();
  return out.length === 1 ? out[0] : `<mrow>${out.join("")}</mrow>`;
}

// What stands under a fraction bar needs no brackets of its own.
function below(list) {
  if (list[0] !== "(") return atom(list);
  list.shift();
  return rowOf(list, ")");
}

function atom(list) {
  let base = single(list);
  while (list[0] === "_" || list[0] === "^") {
    const kind = list.shift() === "_" ? "msub" : "msup";
    base = `<${kind}>${base}${single(list)}</${kind}>`;
  }
  return base;
}

function single(list) {
  const token = list.shift() ?? "";
  if (token === "{") return rowOf(list, "}");
  if (token === "sqrt") {
    list.shift();
    return `<msqrt>${rowOf(list, ")")}</msqrt>`;
  }
  if (/^\d/.test(token)) return `<mn>${token}</mn>`;
  if (OPERATORS.test(token)) return `<mo>${token.replace("-", "−").replace("<", "&lt;").replace(">", "&gt;")}</mo>`;
  if (token in GREEK) return /[∑∈≈·−∞…]/.test(GREEK[token]) ? `<mo>${GREEK[token]}</mo>` : `<mi>${GREEK[token]}</mi>`;
  return `<mi>${token}</mi>`;
}
