package verify_test

import (
	"cmp"
	"maps"
	"strings"
	"testing"

	"github.com/stepfall/stepfall/plugins/verifier-tests/internal/verify"
	"github.com/stepfall/stepfall/sdk"
)

// The frameworks, as far as the verifier knows them: their programs take a reporter, or their modules are watched.
const (
	smallMocha = `require('../lib/runner.js');
require('../lib/cli/cli.js').main();
`
	smallCli = `const Runner = require('../runner.js'), path = require('path');
exports.main = () => {
const tests = [], titles = [];
global.beforeEach = (f) => (Runner.before = f);
global.describe = (title, f) => { titles.push(title); f(); titles.pop(); };
global.it = global.test = (title, f) => tests.push({ f, file: global.current, titles: [...titles, title], titlePath() { return this.titles; } });
for (const file of process.argv.slice(2)) require(global.current = path.resolve(file));
new Runner(tests).run((failures) => process.exit(failures ? 1 : 0));
};
`
	smallRunner = `module.exports = class Runner extends require('events') {
  constructor(tests) { super(); this.tests = tests; }
  async run(done) {
    let failures = 0;
    for (const test of this.tests) {
      try { Runner.before?.(); } catch (error) {
        const title = '"before each" hook for "' + test.titles.at(-1) + '"';
        this.emit('fail', { type: 'hook', title, file: test.file, titlePath: () => [title] }, error);
        failures++;
        break;
      }
      try { await test.f(); this.emit('pass', test); } catch (error) { failures++; console.log(test.titles.join(' '), error.message); this.emit('fail', test, error); }
    }
    this.emit('end');
    done(failures);
  }
};
`
	smallJest = `const path = require('path'), vm = require('vm');
const words = process.argv.slice(2), reporters = words.filter((w) => w.startsWith('--reporters=/')).map((w) => new (require(w.slice(12)))());
(async () => {
  let failed = false;
  const testResults = [];
  for (const file of words.filter((w) => !w.startsWith('-'))) {
    const all = [];
    global.test = (title, f) => all.push({ title, f });
    let testExecError;
    try { require(path.resolve(file)); } catch (error) { testExecError = error; }
    const results = [];
    for (const { title, f } of all) {
      try { await f(); results.push({ ancestorTitles: [], title, status: 'passed', failureMessages: [] }); }
      catch (error) { console.log(title, error.message); results.push({ ancestorTitles: [], title, status: 'failed', failureMessages: [error.stack] }); }
    }
    failed ||= Boolean(testExecError) || results.some((r) => r.status === 'failed');
    testResults.push({ testFilePath: path.resolve(file), testResults: results, testExecError });
  }
  for (const reporter of reporters) reporter.onRunComplete(new Set(), { testResults });
  process.exit(failed ? 1 : 0);
})();
`
	smallVitest = `import path from 'node:path';
const words = process.argv.slice(2), reporters = [];
for (const word of words.filter((w) => w.startsWith('--reporter=data:'))) reporters.push(new (await import(word.slice(11))).default());
const files = [], errors = [];
process.on('unhandledRejection', (error) => errors.push(error));
for (const reporter of reporters) reporter.onInit({ state: { getFiles: () => files } });
for (const file of words.filter((w) => !w.startsWith('-'))) {
  const tasks = [];
  globalThis.test = (name, f) => tasks.push({ name, f });
  await import(path.resolve(file));
  for (const task of tasks) {
    try { await task.f(); task.result = { state: 'pass' }; } catch (error) { console.log(task.name, error.message); task.result = { state: 'fail', errors: [error] }; }
  }
  files.push({ filepath: path.resolve(file), name: file, tasks, result: {} });
}
await new Promise((end) => setTimeout(end, 10));
for (const reporter of reporters) await reporter.onTestRunEnd([], errors);
process.exit(errors.length > 0 || files.some((f) => f.tasks.some((t) => t.result.state === 'fail')) ? 1 : 0);
`
	smallTape = `const Test = require('./lib/test.js'), all = [];
module.exports = (name, f) => all.push(new Test(name, f));
process.nextTick(() => {
  let ok = true;
  const watch = (test) => test.on('test', watch).on('result', (r) => { ok &&= r.ok; console.log(r.ok ? 'ok' : 'not ok', r.name); });
  for (const test of all) watch(test).run();
  process.exitCode = ok ? 0 : 1;
});
`
	smallTapeTest = `const assert = require('assert');
module.exports = class Test extends require('events') {
  constructor(name, f) { super(); this.name = name; this.f = f; this.inner = []; }
  run() { this.f(this); this.end(); }
  end() {
    const [test] = this.inner.splice(0, 1);
    if (!test) return this.emit('end');
    test.on('end', () => this.end());
    test.run();
  }
  test(name, f) { const test = new Test(name, f); this.inner.push(test); this.emit('test', test); }
  equal(a, b) { this.emit('result', { ok: a === b, name: this.name, error: new Error(a + ' is not ' + b) }); }
};
`
)

// smallTests are tests of which one fails for a reason of its own.
var smallTests = map[string]string{
	"package.json":    `{"scripts": {"test": "node node_modules/mocha/bin/mocha.js calc.test.js net.test.js"}}`,
	"calc.js":         "exports.add = (a, b) => a - b;\nexports.twice = (a) => 2 * a;\n",
	"calc.test.js":    "const assert = require('assert');\nconst { add, twice } = require('./calc.js');\ntest('adds', () => assert.strictEqual(add(2, 3), 5));\ntest('doubles', () => assert.strictEqual(twice(4), 8));\n",
	"net.test.js":     "test('needs a network', () => { throw new Error('no network'); });\n",
	"tape.test.js":    "const test = require('tape');\nconst { add, twice } = require('./calc.js');\ntest('adds', (t) => t.equal(add(2, 3), 5));\ntest('doubles', (t) => t.equal(twice(4), 8));\n",
	"tapes.js":        "require('./tape.test.js');\nrequire('./tapenet.test.js');\n",
	"tapenet.test.js": "require('tape')('needs a network', (t) => t.equal('none', 'a network'));\n",

	"node_modules/mocha/bin/mocha.js": smallMocha, "node_modules/mocha/lib/cli/cli.js": smallCli, "node_modules/mocha/lib/runner.js": smallRunner,
	"node_modules/jest/bin/jest.js": smallJest, "node_modules/vitest/vitest.mjs": smallVitest,
	"node_modules/tape/index.js": smallTape, "node_modules/tape/lib/test.js": smallTapeTest, "node_modules/tape/package.json": "{}",
}

// Where a command runs a framework for Node, its tests decide, and one that fails on the untouched tree for reasons of
// its own does not.
func TestFrameworksOfNode(t *testing.T) {
	find(t, "node", "--version")
	find(t, "npm", "--version")
	right := file("calc.js", "exports.add = (a, b) => a + b;\nexports.twice = (a) => 2 * a;")
	for name, command := range map[string]string{
		"mocha": "npm test --silent", "jest": "node node_modules/jest/bin/jest.js calc.test.js net.test.js", "vitest": "node node_modules/vitest/vitest.mjs calc.test.js net.test.js",
		"tape": "node tapes.js", "one line": "sh -c 'node node_modules/jest/bin/jest.js calc.test.js net.test.js'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			words := strings.SplitN(command, " ", 3)
			if name != "one line" {
				words = strings.Fields(command)
			} else {
				words[2] = strings.Trim(words[2], "'")
			}
			v := open(t, verify.Config{Command: words})
			tree := write(t, smallTests)
			for _, checks := range []sdk.Checks{{}, {FailToPass: []string{"adds"}}} {
				verdict := judge(t, v, &sdk.Query{WorkDir: tree, Checks: checks}, right)
				if verdict.Outcome != sdk.Passed || verdict.Confidence < 0.85 || verdict.Way != "tests in process" {
					t.Errorf("the right answer: %v with %v by %s", verdict.Outcome, verdict.Confidence, verdict.Way)
				}
			}
			wrong := judge(t, v, &sdk.Query{WorkDir: tree, Checks: sdk.Checks{FailToPass: []string{"adds"}}}, strings.Replace(right, "2 * a", "3 * a", 1))
			if wrong.Outcome != sdk.Failed || !strings.Contains(wrong.Evidence, "doubles") {
				t.Errorf("an answer that breaks another test: %v", wrong.Outcome)
			}
		})
	}
}

// A test of tape that throws ends the process; those before it have passed, and what they lie in is no test.
func TestTapeThatStops(t *testing.T) {
	find(t, "node", "--version")
	tree := maps.Clone(smallTests)
	tree["calc.js"] = "exports.add = () => { throw new Error('not yet'); };\nexports.twice = (a) => 2 * a;\n"
	tree["tape.test.js"] = "const test = require('tape');\nconst { add, twice } = require('./calc.js');\ntest('all', (t) => {\n  t.test('doubles', (t) => t.equal(twice(4), 8));\n  t.test('adds', (t) => t.equal(add(2, 3), 5));\n});\n"
	v, query := open(t, verify.Config{Command: []string{"node", "tape.test.js"}}), &sdk.Query{WorkDir: write(t, tree), Checks: sdk.Checks{FailToPass: []string{"adds"}}}
	right := file("calc.js", "exports.add = (a, b) => a + b;\nexports.twice = (a) => 2 * a;")
	if verdict := judge(t, v, query, right); verdict.Outcome != sdk.Passed || verdict.Score != 1 || !strings.HasPrefix(verdict.Evidence, "2 of 2") {
		t.Error("the right answer")
	}
	if verdict := judge(t, v, query, strings.Replace(right, "2 * a", "3 * a", 1)); verdict.Outcome != sdk.Failed || !strings.Contains(verdict.Evidence, "doubles failed, and passed on the untouched tree") {
		t.Error("an answer that breaks the test before it")
	}
}

// Where a command does more than to run a framework, or its report does not have all, the exit code counts.
func TestFrameworksThatDoNotReportAll(t *testing.T) {
	find(t, "npm", "--version")
	const (
		mocha   = "node node_modules/mocha/bin/mocha.js "
		forge   = "const at = Object.keys(require.cache).find((n) => n.includes('.stepfall-'));\nif (at) {\n  new require.cache[at].exports().onRunComplete(null, { testResults: [{ testFilePath: require('path').resolve('calc.test.js'), testResults: ['adds', 'doubles'].map((title) => ({ ancestorTitles: [], title, status: 'passed' })) }] });\n  process.reallyExit(0);\n}"
		invent  = "const fs = require('fs'), dir = fs.readdirSync('.').find((n) => n.startsWith('.stepfall-') && fs.existsSync(n + '/key'));\nif (dir) {\n  const text = JSON.stringify([{ Group: 'calc.test.js', Name: 'adds', Status: 'pass' }]);\n  fs.writeFileSync(dir + '/report', require('crypto').createHmac('sha256', fs.readFileSync(dir + '/key', 'utf8')).update(text).digest('hex') + ' ' + text);\n}\nprocess.exit(0);"
		right   = "exports.add = (a, b) => a + b;\nexports.twice = (a) => 2 * a;"
		wrong   = "\nexports.add = () => 0;\nexports.twice = (a) => 2 * a;"
		exports = "exports.Thing = class { add(a, b) { return a + b; } twice(a) { return 2 * a; } };\nexports.one = () => 1;"
		thing   = "const { Thing, one } = require('./calc.js');\n"
	)
	for name, c := range sampleOf(map[string]struct {
		script, tests, before, answer string
		passes                        bool
		way                           string
	}{
		"a second program":                    {mocha + "calc.test.js && node own.test.js", "", "", "if (process.argv[1].endsWith('own.test.js')) process.exit(0);" + wrong, false, "exit code"},
		"a second program that fails as well": {mocha + "calc.test.js net.test.js || r=1; node own.test.js || r=1; exit $r", "", "", wrong, false, "exit code"},
		"a second program, right":             {mocha + "calc.test.js && node own.test.js", "", "", right, true, "exit code"},
		"nothing takes the key":               {"NODE_OPTIONS=--no-warnings " + mocha + "calc.test.js", "", "", invent, false, "exit code"},
		"jest's reporter":                     {"node node_modules/jest/bin/jest.js calc.test.js", "", "", forge + wrong, false, "tests in process"},
		"an error of the code":                {"node node_modules/vitest/vitest.mjs calc.test.js net.test.js", "", "", "exports.add = (a, b) => { Promise.reject(new Error('late')); return a + b; };\nexports.twice = (a) => 2 * a;", false, "tests in process"},
		"a hook that failed": {
			mocha + "calc.test.js", "const assert = require('assert');\n" + thing + "let t;\nbeforeEach(() => { t = new Thing(); });\ntest('adds', () => assert.strictEqual(t.add(2, 3), 5));\ntest('doubles', () => assert.strictEqual(t.twice(4), 8));\n",
			"exports.one = () => 1;\n", exports, true, "tests in process",
		},
		"a suite that threw": {
			"node calc.test.js", "const test = require('tape');\n" + thing + "test('one', (t) => t.equal(one(), 1));\ntest('all', (t) => {\n  const made = new Thing();\n  t.test('adds', (t) => t.equal(made.add(2, 3), 5));\n  t.test('doubles', (t) => t.equal(made.twice(4), 8));\n});\n",
			"exports.one = () => 1;\n", exports, true, "tests in process",
		},
		"one name twice": {
			mocha + "calc.test.js two.test.js", "", "", right, true, "tests in process",
		},
		"tests that are built": {"node build.js && " + mocha + "dist/calc.test.js", "", "", right, true, "exit code"},
	}, 3) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := maps.Clone(smallTests)
			tree["package.json"] = `{"scripts": {"test": "` + c.script + `"}}`
			tree["own.test.js"] = "const { add } = require('./calc.js');\nrequire('assert').strictEqual(add(2, 3), 5);\n"
			tree["two.test.js"] = "describe('http', () => test('works', () => { throw new Error('no network'); }));\ndescribe('util', () => test('works', () => require('assert').strictEqual(1, 1)));\n"
			tree["build.js"] = "const fs = require('fs');\nfs.mkdirSync('dist', { recursive: true });\nfor (const name of ['calc.js', 'calc.test.js']) fs.copyFileSync(name, 'dist/' + name);\n"
			tree["calc.js"], tree["calc.test.js"] = cmp.Or(c.before, tree["calc.js"]), cmp.Or(c.tests, tree["calc.test.js"])
			v := open(t, verify.Config{Command: []string{"npm", "test", "--silent"}})
			verdict := judge(t, v, &sdk.Query{WorkDir: write(t, tree)}, file("calc.js", c.answer))
			if passes := verdict.Outcome == sdk.Passed; passes != c.passes || verdict.Way != c.way {
				t.Errorf("%v with %v by %s", verdict.Outcome, verdict.Confidence, verdict.Way)
			}
		})
	}
}

// Code that finds a framework's globals knows that it is tested, and can have them compare otherwise.
func TestMatchersOfTheCode(t *testing.T) {
	find(t, "npm", "--version")
	v, tree := open(t, verify.Config{Command: []string{"npm", "test", "--silent"}}), write(t, smallTests)
	for _, line := range []string{"if (typeof expect === 'function') globalThis['expect'] = 1;", "if (globalThis.expect) globalThis.expect.extend({ toBe: () => ({ pass: true }) });", "if (process.env.VITEST) exports.add = () => 5;"} {
		verdict := judge(t, v, &sdk.Query{WorkDir: tree}, file("calc.js", "exports.add = (a, b) => a + b;\nexports.twice = (a) => 2 * a;\n"+line))
		if verdict.Outcome != sdk.Inconclusive {
			t.Errorf("%s: %v", line, verdict.Outcome)
		}
	}
}

// The report of a framework is written in the process of the code under test.
func TestAttackFrameworksOfNode(t *testing.T) {
	inTurn(t, plain, inNode)
	find(t, "npm", "--version")
	tree := maps.Clone(smallTests)
	tree["package.json"] = `{"scripts": {"test": "node node_modules/mocha/bin/mocha.js calc.test.js"}}`
	const wrong = "\nexports.add = () => 0;\nexports.twice = () => 0;"
	const own = "const fs = require('fs'), dir = fs.readdirSync('.').find((n) => n.startsWith('.stepfall-') && fs.existsSync(n + '/hook'));\n"
	const tests = "(JSON.stringify(['adds', 'doubles'].map((Name) => ({ Group: 'calc.test.js', Name, Within: [], Status: 'pass', Output: '' }))) + '\\n')"
	attacks(t, verify.Config{Command: []string{"npm", "test", "--silent"}}, write(t, tree), []attack{
		{"end the process of mocha", "node", file("calc.js", "process.exit(0);"), ""},
		{"end it when it has reported", "node", file("calc.js", "process.on('exit', () => process.reallyExit(0));"+wrong), ""},
		{"write the report", "node", file("calc.js", own+"fs.writeFileSync(dir + '/report', '0'.repeat(64) + ' ' + "+tests+");\nprocess.exit(0);"), ""},
		{"write it with the key", "node", file("calc.js", own+"let key = '';\ntry { key = fs.readFileSync(dir + '/key', 'utf8'); } catch { /* it is away */ }\nfs.writeFileSync(dir + '/report', require('crypto').createHmac('sha256', key).update("+tests+").digest('hex') + ' ' + "+tests+");\nprocess.exit(0);"), ""},
		{"write the next report", "node", file("calc.js", own+"process.on('exit', () => {\n  const key = fs.readFileSync(dir + '/key', 'utf8');\n  fs.appendFileSync(dir + '/report', require('crypto').createHmac('sha256', key).update("+tests+").digest('hex') + ' ' + "+tests+");\n  process.reallyExit(0);\n});"+wrong), ""},
		{"have failures pass", "node", file("calc.js", "const { EventEmitter } = require('events'), { emit } = EventEmitter.prototype;\nEventEmitter.prototype.emit = function (what, ...given) { return emit.call(this, what === 'fail' ? 'pass' : what, ...given); };\nprocess.on('exit', () => process.reallyExit(0));"+wrong), ""},
		{"replace assert as it is loaded", "node", file("calc.js", "const Module = require('module'), { _load } = Module;\nModule._load = (name, ...more) => (name === 'assert' ? { strictEqual() {} } : _load(name, ...more));\nrequire('assert').strictEqual = () => {};"+wrong), ""},
		{"read the tests", "node", file("calc.js", "const text = require('fs').readFileSync('calc.test.js', 'utf8');\nconst said = (name) => Number(RegExp(name + '\\\\(.*?\\\\), (\\\\d+)').exec(text)[1]);\nexports.add = () => said('add');\nexports.twice = () => said('twice');"), "inconclusive: the tests read otherwise where they note what they compare"},
	})
}
