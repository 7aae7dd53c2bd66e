// The report's script: a 3D view of the binary glTF in the page (WebGL 2, no library), and tables that sort.
"use strict";
(() => {
  // --- Matrices, column after column ---
  const multiply = (a, b) => {
    const r = new Float32Array(16);
    for (let c = 0; c < 4; c++) for (let i = 0; i < 4; i++)
      r[4 * c + i] = a[i] * b[4 * c] + a[4 + i] * b[4 * c + 1] + a[8 + i] * b[4 * c + 2] + a[12 + i] * b[4 * c + 3];
    return r;
  };
  const fromParts = ([x, y, z], [qx, qy, qz, qw], [sx, sy, sz]) => new Float32Array([
    (1 - 2 * (qy * qy + qz * qz)) * sx, 2 * (qx * qy + qz * qw) * sx, 2 * (qx * qz - qy * qw) * sx, 0,
    2 * (qx * qy - qz * qw) * sy, (1 - 2 * (qx * qx + qz * qz)) * sy, 2 * (qy * qz + qx * qw) * sy, 0,
    2 * (qx * qz + qy * qw) * sz, 2 * (qy * qz - qx * qw) * sz, (1 - 2 * (qx * qx + qy * qy)) * sz, 0,
    x, y, z, 1]);
  const apply = (m, [x, y, z]) => [0, 1, 2, 3].map((i) => m[i] * x + m[4 + i] * y + m[8 + i] * z + m[12 + i]);
  const subtract = (a, b) => a.map((value, i) => value - b[i]);
  const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
  const unit = (a) => { const l = Math.hypot(...a) || 1; return a.map((value) => value / l); };
  const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
  const lookAt = (eye, target) => {
    const z = unit(subtract(eye, target)), x = unit(cross([0, 1, 0], z)), y = cross(z, x);
    return new Float32Array([x[0], y[0], z[0], 0, x[1], y[1], z[1], 0, x[2], y[2], z[2], 0,
      -dot(x, eye), -dot(y, eye), -dot(z, eye), 1]);
  };
  const perspective = (angle, aspect, near, far) => {
    const f = 1 / Math.tan(angle / 2);
    return new Float32Array([f / aspect, 0, 0, 0, 0, f, 0, 0, 0, 0, (far + near) / (near - far), -1,
      0, 0, 2 * far * near / (near - far), 0]);
  };
  const IDENTITY = fromParts([0, 0, 0], [0, 0, 0, 1], [1, 1, 1]);
  // Z up in ROS, Y up in glTF.
  const FROM_ROS = fromParts([0, 0, 0], [-Math.SQRT1_2, 0, 0, Math.SQRT1_2], [1, 1, 1]);

  // --- Binary glTF ---
  const readGlb = (base64) => {
    const bytes = Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    const length = view.getUint32(12, true);
    const document = JSON.parse(new TextDecoder().decode(bytes.subarray(20, 20 + length)));
    return { document, data: bytes.subarray(28 + length) };
  };
  const partOf = (glb, number) => {
    const { byteOffset, byteLength } = glb.document.bufferViews[number];
    return glb.data.subarray(byteOffset, byteOffset + byteLength);
  };

  const VERTEX = `#version 300 es
    in vec3 position; in vec3 normal; in vec2 uv;
    uniform mat4 camera, model;
    out vec3 place, direction; out vec2 at;
    void main() {
      vec4 world = model * vec4(position, 1.0);
      place = world.xyz; at = uv;
      direction = transpose(inverse(mat3(model))) * normal;
      gl_Position = camera * world;
    }`;
  const FRAGMENT = `#version 300 es
    precision highp float;
    in vec3 place, direction; in vec2 at;
    uniform vec4 color; uniform vec3 eye; uniform bool smooth_shaded, textured, picking; uniform sampler2D image;
    out vec4 result;
    void main() {
      if (picking) { result = color; return; }
      vec4 base = color;
      if (textured) { vec4 t = texture(image, at); base *= vec4(pow(t.rgb, vec3(2.2)), t.a); }
      vec3 sight = normalize(eye - place);
      vec3 n = smooth_shaded ? normalize(direction) : normalize(cross(dFdx(place), dFdy(place)));
      if (dot(n, sight) < 0.0) n = -n;
      float light = 0.3 + 0.2 * n.y + 0.55 * max(dot(n, normalize(sight + vec3(0.25, 0.55, 0.1))), 0.0);
      result = vec4(pow(base.rgb * light, vec3(1.0 / 2.2)), base.a);
    }`;
  const AXIS_VERTEX = `#version 300 es
    in vec3 position; in vec4 tint; uniform mat4 camera; out vec4 shade;
    void main() { shade = tint; gl_Position = camera * vec4(position, 1.0); }`;
  const AXIS_FRAGMENT = `#version 300 es
    precision highp float;
    in vec4 shade; out vec4 result;
    void main() { result = shade; }`;

  class View {
    constructor(canvas, labels, settings, base64) {
      this.canvas = canvas; this.labels = labels; this.settings = settings;
      this.shown = { meshes: true, collisions: false, axes: true, names: false };
      this.selected = "";
      const gl = this.gl = canvas.getContext("webgl2", { antialias: true, premultipliedAlpha: false });
      if (!gl) throw new Error("this browser has no WebGL 2");
      this.surface = this.program(VERTEX, FRAGMENT, ["position", "normal", "uv"]);
      this.axes = this.program(AXIS_VERTEX, AXIS_FRAGMENT, ["position", "tint"]);
      this.names = ["camera", "model", "color", "eye", "smooth_shaded", "textured", "picking"];
      this.places = Object.fromEntries(this.names.map((each) => [each, gl.getUniformLocation(this.surface, each)]));
      this.axisCamera = gl.getUniformLocation(this.axes, "camera");
      this.axisBuffer = gl.createBuffer();
      this.axisArray = gl.createVertexArray();
      this.nodes = base64 ? this.load(readGlb(base64)) : [];
      this.frames = settings.frames.map((each) => ({ ...each, world: multiply(FROM_ROS, each.matrix) }));
      this.addLabels();
      this.fit();
      this.listen();
    }

    program(vertex, fragment, attributes) {
      const gl = this.gl, program = gl.createProgram();
      for (const [kind, source] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
        const shader = gl.createShader(kind);
        gl.shaderSource(shader, source); gl.compileShader(shader);
        if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
        gl.attachShader(program, shader);
      }
      attributes.forEach((name, row) => gl.bindAttribLocation(program, row, name));
      gl.linkProgram(program);
      return program;
    }

    load(glb) {
      const { document } = glb, found = [];
      const images = (document.images || []).map((each) => this.image(partOf(glb, each.bufferView), each.mimeType));
      const arrays = new Map();
      const meshes = (document.meshes || []).map((mesh) => mesh.primitives.map((primitive) => {
        const key = `${primitive.attributes.POSITION} ${primitive.indices}`;
        if (!arrays.has(key)) arrays.set(key, this.array(glb, primitive));
        const { pbrMetallicRoughness: surface, alphaMode } = document.materials[primitive.material];
        const texture = surface.baseColorTexture;
        return { ...arrays.get(key), color: surface.baseColorFactor, blend: alphaMode === "BLEND",
          image: texture ? images[document.textures[texture.index].source] : null };
      }));
      const walk = (row, above) => {
        const node = document.nodes[row];
        const own = fromParts(node.translation || [0, 0, 0], node.rotation || [0, 0, 0, 1], node.scale || [1, 1, 1]);
        const model = multiply(above, own);
        if (node.mesh !== undefined) for (const part of meshes[node.mesh])
          found.push({ ...part, model, path: node.name || "", collision: Boolean(node.extras && node.extras.collision) });
        for (const child of node.children || []) walk(child, model);
      };
      for (const row of document.scenes[document.scene].nodes) walk(row, IDENTITY);
      return found;
    }

    array(glb, primitive) {
      const gl = this.gl, { accessors } = glb.document, array = gl.createVertexArray();
      gl.bindVertexArray(array);
      const put = (row, name, size) => {
        const number = primitive.attributes[name];
        if (number === undefined) return;
        gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
        gl.bufferData(gl.ARRAY_BUFFER, partOf(glb, accessors[number].bufferView), gl.STATIC_DRAW);
        gl.enableVertexAttribArray(row);
        gl.vertexAttribPointer(row, size, gl.FLOAT, false, 0, 0);
      };
      put(0, "POSITION", 3); put(1, "NORMAL", 3); put(2, "TEXCOORD_0", 2);
      const indices = accessors[primitive.indices];
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
      gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, partOf(glb, indices.bufferView), gl.STATIC_DRAW);
      gl.bindVertexArray(null);
      return { array, count: indices.count, kind: indices.componentType,
        smooth: primitive.attributes.NORMAL !== undefined };
    }

    image(bytes, type) {
      const gl = this.gl, texture = gl.createTexture();
      gl.bindTexture(gl.TEXTURE_2D, texture);
      gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 1, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array([180, 180, 180, 255]));
      createImageBitmap(new Blob([bytes], { type })).then((bitmap) => {
        gl.bindTexture(gl.TEXTURE_2D, texture);
        gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, gl.RGBA, gl.UNSIGNED_BYTE, bitmap);
        gl.generateMipmap(gl.TEXTURE_2D);
        this.draw();
      });
      return texture;
    }

    addLabels() {
      for (const frame of this.frames) {
        const label = document.createElement("span");
        label.textContent = frame.id;
        this.labels.append(label);
        frame.label = label;
      }
    }

    fit() {
      this.target = apply(FROM_ROS, this.settings.center).slice(0, 3);
      this.distance = 2.5 * this.settings.radius;
      this.yaw = 0.9; this.pitch = 0.42;
      this.draw();
    }

    listen() {
      const { canvas } = this, pointers = new Map();
      canvas.addEventListener("pointerdown", (event) => {
        canvas.setPointerCapture(event.pointerId);
        pointers.set(event.pointerId, [event.clientX, event.clientY]);
        this.pressed = [event.clientX, event.clientY];
      });
      canvas.addEventListener("click", (event) => {
        if (Math.hypot(event.clientX - this.pressed[0], event.clientY - this.pressed[1]) < 4)
          this.picked(this.pick(event.offsetX, event.offsetY));
      });
      for (const name of ["pointerup", "pointercancel"])
        canvas.addEventListener(name, (event) => pointers.delete(event.pointerId));
      canvas.addEventListener("pointermove", (event) => {
        const last = pointers.get(event.pointerId);
        if (!last) return;
        const moved = [event.clientX - last[0], event.clientY - last[1]];
        pointers.set(event.pointerId, [event.clientX, event.clientY]);
        if (event.buttons & 6 || event.shiftKey || pointers.size > 1) this.pan(...moved); else this.turn(...moved);
      });
      canvas.addEventListener("contextmenu", (event) => event.preventDefault());
      canvas.addEventListener("wheel", (event) => {
        event.preventDefault();
        this.zoom(Math.exp(0.001 * Math.max(-200, Math.min(200, event.deltaY))));
      }, { passive: false });
      canvas.addEventListener("keydown", (event) => {
        const turns = { ArrowLeft: [-20, 0], ArrowRight: [20, 0], ArrowUp: [0, -20], ArrowDown: [0, 20] };
        if (turns[event.key]) this.turn(...turns[event.key]);
        else if (event.key === "+") this.zoom(0.85);
        else if (event.key === "-") this.zoom(1.18);
        else return;
        event.preventDefault();
      });
      new ResizeObserver(() => this.draw()).observe(canvas);
    }

    turn(x, y) {
      this.yaw -= 0.008 * x;
      this.pitch = Math.max(-1.55, Math.min(1.55, this.pitch + 0.008 * y));
      this.draw();
    }

    pan(x, y) {
      const step = 0.0012 * this.distance, view = this.look;
      const right = [view[0], view[4], view[8]], up = [view[1], view[5], view[9]];
      this.target = this.target.map((value, i) => value + step * (y * up[i] - x * right[i]));
      this.draw();
    }

    zoom(factor) {
      const { radius } = this.settings;
      this.distance = Math.max(0.02 * radius, Math.min(60 * radius, this.distance * factor));
      this.draw();
    }

    draw() {
      if (this.waiting) return;
      this.waiting = true;
      requestAnimationFrame(() => { this.waiting = false; this.render(); });
    }

    render() {
      const { gl, canvas, settings } = this, scale = window.devicePixelRatio || 1;
      const width = Math.max(1, Math.round(canvas.clientWidth * scale));
      const height = Math.max(1, Math.round(canvas.clientHeight * scale));
      if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
      gl.viewport(0, 0, width, height);
      gl.clearColor(0, 0, 0, 0);
      gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
      gl.enable(gl.DEPTH_TEST);
      const flat = Math.cos(this.pitch);
      const away = [flat * Math.sin(this.yaw), Math.sin(this.pitch), flat * Math.cos(this.yaw)];
      const eye = this.target.map((value, i) => value + this.distance * away[i]);
      this.look = lookAt(eye, this.target);
      const far = this.distance + 60 * settings.radius;
      this.camera = multiply(perspective(0.7, width / height, Math.max(0.002 * far / 60, 0.01 * this.distance), far), this.look);
      this.drawSurfaces(eye);
      this.drawAxes(eye);
      this.placeLabels();
      canvas.dataset.drawn = String(1 + Number(canvas.dataset.drawn || 0));
    }

    get visible() {
      return this.nodes.filter((each) => each.collision ? this.shown.collisions : this.shown.meshes);
    }

    // The prim path of what is seen at a point of the canvas: all is drawn again, its number in place of its colour.
    pick(x, y) {
      const { gl, canvas, places } = this, { width, height } = canvas, scale = width / canvas.clientWidth;
      const target = gl.createFramebuffer(), color = gl.createRenderbuffer(), depth = gl.createRenderbuffer();
      gl.bindFramebuffer(gl.FRAMEBUFFER, target);
      for (const [buffer, format, point] of [[color, gl.RGBA8, gl.COLOR_ATTACHMENT0],
        [depth, gl.DEPTH_COMPONENT24, gl.DEPTH_ATTACHMENT]]) {
        gl.bindRenderbuffer(gl.RENDERBUFFER, buffer);
        gl.renderbufferStorage(gl.RENDERBUFFER, format, width, height);
        gl.framebufferRenderbuffer(gl.FRAMEBUFFER, point, gl.RENDERBUFFER, buffer);
      }
      gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
      gl.enable(gl.DEPTH_TEST);
      gl.useProgram(this.surface);
      gl.uniformMatrix4fv(places.camera, false, this.camera);
      gl.uniform1i(places.picking, 1);
      const nodes = this.visible;
      nodes.forEach((node, row) => {
        const number = row + 1;
        gl.uniformMatrix4fv(places.model, false, node.model);
        gl.uniform4f(places.color, (number & 255) / 255, (number >> 8 & 255) / 255, (number >> 16 & 255) / 255, 1);
        gl.bindVertexArray(node.array);
        gl.drawElements(gl.TRIANGLES, node.count, node.kind, 0);
      });
      const pixel = new Uint8Array(4);
      gl.readPixels(Math.floor(x * scale), height - 1 - Math.floor(y * scale), 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, pixel);
      gl.uniform1i(places.picking, 0);
      gl.bindFramebuffer(gl.FRAMEBUFFER, null);
      gl.deleteFramebuffer(target); gl.deleteRenderbuffer(color); gl.deleteRenderbuffer(depth);
      const found = nodes[pixel[0] + 256 * pixel[1] + 65536 * pixel[2] - 1];
      return found ? found.path : "";
    }

    drawSurfaces(eye) {
      const { gl, places } = this;
      gl.useProgram(this.surface);
      gl.uniformMatrix4fv(places.camera, false, this.camera);
      gl.uniform3fv(places.eye, eye);
      const nodes = this.visible;
      for (const blended of [false, true]) {
        if (blended) {
          gl.enable(gl.BLEND); gl.depthMask(false);
          gl.blendFuncSeparate(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA, gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
        }
        for (const node of nodes) if (node.blend === blended) {
          gl.uniformMatrix4fv(places.model, false, node.model);
          gl.uniform4fv(places.color, node.color);
          gl.uniform1i(places.smooth_shaded, node.smooth);
          gl.uniform1i(places.textured, node.image ? 1 : 0);
          if (node.image) gl.bindTexture(gl.TEXTURE_2D, node.image);
          gl.bindVertexArray(node.array);
          gl.drawElements(gl.TRIANGLES, node.count, node.kind, 0);
        }
      }
      gl.disable(gl.BLEND); gl.depthMask(true);
    }

    drawAxes(eye) {
      const { gl, shown, selected } = this, values = [];
      const length = 0.09 * this.settings.radius;
      for (const frame of this.frames) {
        const chosen = frame.key === selected;
        if (!shown.axes && !chosen) continue;
        const m = frame.world, size = length * (chosen ? 2.5 : 1), start = [m[12], m[13], m[14]];
        for (let axis = 0; axis < 3; axis++) {
          const tint = [0.12, 0.12, 0.12, 1];
          tint[axis] = axis === 2 ? 1 : 0.8;
          const along = [0, 1, 2].map((i) => size * m[4 * axis + i]);
          const end = start.map((value, i) => value + along[i]);
          // A ribbon that faces the eye: WebGL's own lines are one pixel wide.
          const side = unit(cross(along, subtract(eye, start))).map((value) => 0.0016 * this.distance * value);
          const corners = [[start, 1], [end, 1], [end, -1], [start, 1], [end, -1], [start, -1]];
          for (const [point, sign] of corners) values.push(...point.map((value, i) => value + sign * side[i]), ...tint);
        }
      }
      if (!values.length) return;
      gl.disable(gl.DEPTH_TEST);
      gl.useProgram(this.axes);
      gl.uniformMatrix4fv(this.axisCamera, false, this.camera);
      gl.bindVertexArray(this.axisArray);
      gl.bindBuffer(gl.ARRAY_BUFFER, this.axisBuffer);
      gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(values), gl.DYNAMIC_DRAW);
      gl.enableVertexAttribArray(0); gl.vertexAttribPointer(0, 3, gl.FLOAT, false, 28, 0);
      gl.enableVertexAttribArray(1); gl.vertexAttribPointer(1, 4, gl.FLOAT, false, 28, 12);
      gl.drawArrays(gl.TRIANGLES, 0, values.length / 7);
      gl.bindVertexArray(null);
    }

    placeLabels() {
      const { canvas, shown, selected } = this;
      for (const frame of this.frames) {
        const chosen = frame.key === selected;
        const [x, y, , w] = apply(this.camera, [frame.world[12], frame.world[13], frame.world[14]]);
        const visible = (shown.names || chosen) && w > 0 && Math.abs(x) < w && Math.abs(y) < w;
        frame.label.hidden = !visible;
        frame.label.className = chosen ? "chosen" : "";
        if (visible) {
          frame.label.style.left = `${(0.5 + 0.5 * x / w) * canvas.clientWidth}px`;
          frame.label.style.top = `${(0.5 - 0.5 * y / w) * canvas.clientHeight}px`;
        }
      }
    }
  }

  const openView = () => {
    const canvas = document.getElementById("scene");
    if (!canvas) return;
    const data = document.getElementById("scene-glb");
    const settings = JSON.parse(document.getElementById("scene-settings").textContent);
    let view;
    try {
      view = new View(canvas, document.getElementById("scene-labels"), settings, data ? data.textContent.trim() : "");
    } catch (error) {
      document.getElementById("scene-fault").textContent = `No 3D view: ${error.message}.`;
      return;
    }
    for (const box of document.querySelectorAll("[data-shows]")) {
      view.shown[box.dataset.shows] = box.checked;
      box.addEventListener("change", () => { view.shown[box.dataset.shows] = box.checked; view.draw(); });
    }
    const shown = document.getElementById("scene-picked");
    view.picked = (path) => { shown.textContent = path; };
    document.getElementById("scene-fit").addEventListener("click", () => view.fit());
    const drawn = [...document.querySelectorAll("[data-frame]")];
    const choose = (node) => {
      view.selected = view.selected === node.dataset.frame ? "" : node.dataset.frame;
      for (const each of drawn) each.classList.toggle("chosen", each.dataset.frame === view.selected);
      view.draw();
    };
    for (const node of drawn) {
      node.addEventListener("click", () => choose(node));
      node.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { choose(node); event.preventDefault(); }
      });
    }
    const save = document.getElementById("scene-save");
    if (data) save.addEventListener("click", () => {
      const link = document.createElement("a");
      link.href = `data:model/gltf-binary;base64,${data.textContent.trim()}`;
      link.download = "asset.glb";
      link.click();
    });
    else save.hidden = true;
  };

  // --- Tables: a click on a heading sorts; the field above filters all rows ---
  const sortable = () => {
    for (const head of document.querySelectorAll("thead th")) head.addEventListener("click", () => {
      const body = head.closest("table").tBodies[0], column = head.cellIndex;
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => row.cells[column].textContent;
      // An empty cell, such as a limit that there is not, is behind all numbers.
      const number = (row) => { const found = parseFloat(value(row)); return Number.isNaN(found) ? Infinity : found; };
      const compare = head.classList.contains("number")
        ? (a, b) => number(a) === number(b) ? 0 : number(a) - number(b)
        : (a, b) => value(a).localeCompare(value(b), undefined, { numeric: true });
      const rows = [...body.rows].sort(compare);
      body.append(...(down ? rows.reverse() : rows));
    });
    const filter = document.getElementById("filter");
    filter.addEventListener("input", () => {
      const wanted = filter.value.toLowerCase();
      for (const row of document.querySelectorAll("tbody tr"))
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
    });
  };

  sortable();
  openView();
})();
