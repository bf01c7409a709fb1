/** Draws all points of the map on the graphics card. Panning and zooming send a handful of numbers, never the points. */

import { COLOURED, components } from "./palette.js";
import { LENS_SIZE } from "./projection.js";

const VERTEX_SHADER = `#version 300 es
layout(location = 0) in vec2 position;
layout(location = 1) in float gap;       // 1 - |position|^2
layout(location = 2) in float size;      // diameter at the centre, in CSS pixels
layout(location = 3) in float group;
layout(location = 4) in float category;
uniform vec2 centre_high;                // the centre of the view as a sum of two floats,
uniform vec2 centre_low;                 // so that differences stay exact near the rim
uniform float centre_gap;                // 1 - |centre|^2
uniform float zoom;
uniform vec2 disk_scale;                 // radius of the disk in clip space
uniform float pixel_ratio;
uniform float highlighted;               // a category code, or -1
uniform vec3 colours[${COLOURED + 1}];
uniform vec3 highlight_colour;
out vec4 colour;
out float diameter;

void main() {
  vec2 delta = (position - centre_high) - centre_low;
  // Möbius addition of -c: (z - c) / (1 - conj(c) z), where 1 - conj(c) z = (1 - |c|^2) - conj(c) (z - c)
  vec2 below = vec2(centre_gap - dot(centre_high, delta), centre_high.y * delta.x - centre_high.x * delta.y);
  float squared = dot(below, below);
  vec2 place = vec2(dot(delta, below), delta.y * below.x - delta.x * below.y) / squared;
  float radius = length(place);
  // The lens: tanh(zoom * atanh(r)), with 1 - r^2 from the product of gaps because r itself has no digits left there.
  float exponent = min(zoom * log((1.0 + radius) * (1.0 + radius) * squared / (centre_gap * gap)), 60.0);
  float on_lens = 1.0 - 2.0 / (exp(exponent) + 1.0);
  place *= radius > 1e-6 ? on_lens / radius : zoom;
  gl_Position = vec4(place * disk_scale, 0.0, 1.0);
  float shown = size * pow(zoom, ${LENS_SIZE.zoomPower}) *
    (${LENS_SIZE.rim} + ${LENS_SIZE.centre} * (1.0 - on_lens * on_lens)) * pixel_ratio;
  bool chosen = category == highlighted;
  float alpha = group == ${COLOURED}.0 ? 0.5 : 0.82;
  colour = vec4(colours[int(group)], alpha);
  if (highlighted >= 0.0) colour = chosen ? vec4(group == ${COLOURED}.0 ? highlight_colour : colour.rgb, 0.95) : vec4(colour.rgb, 0.13);
  // A dot smaller than a pixel is drawn as one pixel, fainter.
  diameter = max(chosen ? shown * 1.25 : shown, 1.0);
  colour.a *= min(shown, 1.0);
  gl_PointSize = diameter + 1.0;
}`;

const FRAGMENT_SHADER = `#version 300 es
precision mediump float;
in vec4 colour;
in float diameter;
out vec4 fragment;

void main() {
  float from_middle = length(gl_PointCoord - 0.5) * (diameter + 1.0);
  float alpha = colour.a * clamp(diameter * 0.5 - from_middle + 0.5, 0.0, 1.0);
  fragment = vec4(colour.rgb * alpha, alpha);
}`;

export class WebglPoints {
  /** @param {HTMLCanvasElement} canvas @returns {WebglPoints | null} null where there is no WebGL 2 */
  static create(canvas) {
    const context = canvas.getContext("webgl2", { antialias: false, premultipliedAlpha: true });
    return context ? new WebglPoints(canvas, context) : null;
  }

  /** @param {HTMLCanvasElement} canvas @param {WebGL2RenderingContext} context */
  constructor(canvas, context) {
    this.canvas = canvas;
    this.context = context;
    this.kind = "webgl2";
    /** @type {import("./catalogue_map.js").CatalogueMap | null} */
    this.map = null;
    this.#prepare();
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => {
      this.#prepare();
      if (this.map) this.load(this.map);
      canvas.dispatchEvent(new CustomEvent("redraw"));
    });
  }

  #prepare() {
    const gl = this.context;
    const program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX_SHADER], [gl.FRAGMENT_SHADER, FRAGMENT_SHADER]]) {
      const shader = gl.createShader(/** @type {number} */ (kind));
      gl.shaderSource(shader, /** @type {string} */ (source));
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost())
      throw new Error(`the shaders do not link: ${gl.getProgramInfoLog(program)}`);
    gl.useProgram(program);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    this.uniform = (/** @type {string} */ name) => gl.getUniformLocation(program, name);
    this.buffer = gl.createBuffer();
  }

  /** Sends the points to the graphics card, once. @param {import("./catalogue_map.js").CatalogueMap} map */
  load(map) {
    this.map = map;
    const gl = this.context;
    const table = new Float32Array(6 * map.count);
    map.order.forEach((row, place) => {
      table[6 * place] = map.positions[2 * row];
      table[6 * place + 1] = map.positions[2 * row + 1];
      table[6 * place + 2] = map.gaps[row];
      table[6 * place + 3] = map.sizes[row];
      table[6 * place + 4] = map.groups[row];
      table[6 * place + 5] = map.codes[row];
    });
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffer);
    gl.bufferData(gl.ARRAY_BUFFER, table, gl.STATIC_DRAW);
  }

  /**
   * @param {import("./view.js").View} view
   * @param {{colours: string[], highlightColour: string, highlighted: number}} look
   * @param {number} stride draws every stride-th point; at most 10, since WebGL steps over 255 bytes and no more
   */
  draw(view, look, stride) {
    const gl = this.context;
    const { width, height } = this.canvas;
    gl.viewport(0, 0, width, height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    if (!this.map) return;
    const { centre, middle, radius, zoom } = view;
    const high = [Math.fround(centre.x), Math.fround(centre.y)];
    gl.uniform2fv(this.uniform("centre_high"), high);
    gl.uniform2f(this.uniform("centre_low"), centre.x - high[0], centre.y - high[1]);
    gl.uniform1f(this.uniform("centre_gap"), 1 - centre.x * centre.x - centre.y * centre.y);
    gl.uniform1f(this.uniform("zoom"), zoom);
    gl.uniform2f(this.uniform("disk_scale"), radius / middle.x, radius / middle.y);
    gl.uniform1f(this.uniform("pixel_ratio"), width / (2 * middle.x));
    gl.uniform1f(this.uniform("highlighted"), look.highlighted);
    gl.uniform3fv(this.uniform("colours"), look.colours.flatMap(components));
    gl.uniform3fv(this.uniform("highlight_colour"), components(look.highlightColour));
    [2, 1, 1, 1, 1].forEach((length, location) => {
      gl.enableVertexAttribArray(location);
      gl.vertexAttribPointer(location, length, gl.FLOAT, false, 24 * stride, [0, 8, 12, 16, 20][location]);
    });
    gl.drawArrays(gl.POINTS, 0, Math.ceil(this.map.count / stride));
  }
}
