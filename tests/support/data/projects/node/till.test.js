const test = require("node:test");
const assert = require("node:assert");
const { total } = require("./till");
test("empty", () => assert.equal(total([]), 0));
test("any", () => {});
