"""What makes the flame graph move in a browser: its style sheet and its script.

Both are fixed text; nothing of the profile is ever put into them. The script reads the profile from
attributes and writes it back as text, never as markup.
"""

from __future__ import annotations

from typing import Final

STYLE: Final = """
text { font: 11px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1d2129; }
.paper { fill: #fcfcfb; }
.head { font-size: 15px; font-weight: bold; }
.small { fill: #4a5160; }
.middle { text-anchor: middle; }
.end { text-anchor: end; }
.button { fill: #1f5fb8; cursor: pointer; text-decoration: underline; }
.ours rect, rect.ours { fill: #f6a35c; }
.python rect, rect.python { fill: #a9c7ea; }
.library rect, rect.library { fill: #a8d8a0; }
.thread rect, rect.thread { fill: #d4d3cd; }
.frame { cursor: pointer; }
.frame text { pointer-events: none; }
.frame:hover rect { stroke: #1d2129; stroke-width: 1; }
.frame.outer { opacity: 0.55; }
.frame.match rect { fill: #d64fd0; }
"""

SCRIPT: Final = """
"use strict";
(function () {
  var svg = document.documentElement;
  var margin = 10, width = 1200 - 2 * margin, letter = 6.6;
  var total = Number(svg.getAttribute("data-total")) || 1;
  var unit = svg.getAttribute("data-unit");
  var byId = function (id) { return document.getElementById(id); };
  var frames = Array.prototype.map.call(document.querySelectorAll(".frame"), function (element) {
    var read = function (name) { return element.getAttribute("data-" + name); };
    return {
      element: element,
      rect: element.querySelector("rect"),
      text: element.querySelector("text"),
      about: element.querySelector("title").textContent,
      name: read("name"),
      start: Number(read("start")),
      weight: Number(read("weight")),
      depth: Number(read("depth"))
    };
  });

  function fit(name, room) {
    var letters = Math.floor((room - 6) / letter);
    if (letters < 3) { return ""; }
    return name.length <= letters ? name : name.slice(0, letters - 2) + "..";
  }

  function place(frame, start, weight) {
    var left = Math.max(frame.start, start);
    var right = Math.min(frame.start + frame.weight, start + weight);
    var x = margin + width * (left - start) / weight;
    var room = width * (right - left) / weight;
    frame.rect.setAttribute("x", x.toFixed(2));
    frame.rect.setAttribute("width", Math.max(room - 0.5, 0.3).toFixed(2));
    frame.text.setAttribute("x", (x + 3).toFixed(2));
    frame.text.textContent = fit(frame.name, room);
  }

  function zoom(target) {
    var start = target ? target.start : 0, weight = target ? target.weight : total;
    var depth = target ? target.depth : 0;
    frames.forEach(function (frame) {
      var inside = frame.start < start + weight && frame.start + frame.weight > start;
      frame.element.style.display = inside ? "" : "none";
      frame.element.classList.toggle("outer", frame.depth < depth);
      if (inside) { place(frame, start, weight); }
    });
    byId("reset").setAttribute("visibility", target && target.depth ? "visible" : "hidden");
  }

  // The weight of what matches, each sample once: a match above another match adds nothing.
  function search(expression) {
    var sum = 0, reach = -1;
    var matches = frames.filter(function (frame) {
      var hit = expression !== null && expression.test(frame.about);
      frame.element.classList.toggle("match", hit);
      return hit;
    });
    matches.sort(function (a, b) { return a.start - b.start || a.depth - b.depth; });
    matches.forEach(function (frame) {
      if (frame.start >= reach) { sum += frame.weight; reach = frame.start + frame.weight; }
    });
    byId("matched").textContent = expression === null ? " "
      : "matched: " + sum.toLocaleString("en") + " " + unit + ", "
        + (100 * sum / total).toFixed(2) + "%";
    byId("search").textContent = expression === null ? "search" : "clear search";
  }

  function ask() {
    if (byId("search").textContent !== "search") { search(null); return; }
    var words = window.prompt("Function or file to look for (a regular expression):");
    if (!words) { return; }
    try { search(new RegExp(words, "i")); }
    catch (problem) { byId("matched").textContent = "not a regular expression"; }
  }

  frames.forEach(function (frame) {
    frame.element.addEventListener("click", function () { zoom(frame); });
    frame.element.addEventListener("mouseenter", function () {
      byId("detail").textContent = frame.about;
    });
    frame.element.addEventListener("mouseleave", function () { byId("detail").textContent = " "; });
  });
  byId("reset").addEventListener("click", function () { zoom(null); });
  byId("search").addEventListener("click", ask);
  byId("search").setAttribute("visibility", "visible");
  window.addEventListener("keydown", function (event) {
    if (event.key === "Escape") { zoom(null); search(null); }
    if (event.key === "/" || (event.key === "f" && event.ctrlKey)) {
      event.preventDefault();
      ask();
    }
  });
}());
"""
