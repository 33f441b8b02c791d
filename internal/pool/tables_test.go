package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// A row is one step of a table: the state that it finds, the call, and the state that it leaves.
type row struct {
	name  string
	given string // commands, one in a line; now+N and now-N become Unix ms
	call  func(p *Pool) any
	twice bool // the call is repeated, as after a lost reply; the table has the state after the second
}

// legend begins each table in testdata; then come the usual ARGV of its scripts. Only counters.txt and survey.txt show
// the hour, minutes, hours and days of the counters, and a result lacks its zero fields (-1ms, too: none).
const legend = `# STEP > the scripts in the order of their first calls, with their ARGV as in the script's comment, but
# without those that are usual (see below), "" or 0; replica= is empty instead of usual
# the keys: "  " unchanged, "- " as they were, "+ " as they are; ! a message that was published = the result
# now-5 is 5 ms before the step; (5 ms) is the remaining life of a key
`

// usual has the ARGV of each script that most rows have in common. A step shows others, also "" or 0 instead of one.
var usual = map[string]string{
	"take":     "id=A call=c replica=r1 need_ms=1000 margin_ms=1000 most_tickets=3 rate_per_ms=1 nonce=n gives_up=never",
	"cancel":   "id=A ticket=1000|r1|c margin_ms=1000 tombstone_ms=30000",
	"add_task": "call=c nonce_of_the_submit=n most=2 life_ms=900000 caller=qa id=A type=turnstile facts={}",
	"admit":    "id=guest-A nonce=n rate=2 rate_per_ms=1000 patience_ms=2000",
	"decide":   "id=A margin_ms=1000 lead_ms=20000 recheck_ms=30000",
	"place": "order=o id=A account=main replica=r1 life_ms=60000 concurrency=3 depth=2 horizon_ms=21000 facts={} " +
		"price=5",
	"bought": "order=o id=A replica=r1 task_ms=86400000 row={} unknown_life_ms=60000",
	"end":    "order=o replica=r1 row={} reason=a_reason,_with_a_comma",
	"report": "nonce=n hash_of_the_identity=A order=o row={} hash_of_the_caller=" + digest("qa"),
}

// TestTables runs each step on a known state, and compares its result and the whole state that it leaves with
// testdata/NAME.txt.
func TestTables(t *testing.T) {
	if *mutant >= 0 {
		mutate(scriptLines()[*mutant])
	}
	for name, rows := range tables {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", name+".txt")
			want, err := os.ReadFile(file)
			testkit.NoError(t, err)
			var steps []string
			for _, r := range rows {
				t.Run(r.name, func(t *testing.T) {
					var step string
					synctest.Test(t, func(t *testing.T) { step = play(t, r) })
					if name != "counters" && name != "survey" {
						step = ofCount.ReplaceAllString(step, "")
					}
					steps = append(steps, step)
					if !*testkit.Update {
						testkit.Equal(t, "the step of "+file+" (-update writes it)", step, stepOf(string(want), step))
					}
				})
			}
			if len(steps) < len(rows) {
				return // -run has left out some
			}
			text := legend
			for _, s := range scripts {
				if args := usual[s.name]; args != "" && strings.Contains(strings.Join(steps, ""), "\n> "+s.name) {
					text += fmt.Sprintf("# %s: %s\n", s.name, args)
				}
			}
			text += "\n" + strings.Join(steps, "\n") + "\n"
			switch {
			case *testkit.Update:
				testkit.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			case text != string(want) && !t.Failed():
				t.Error(file + " has other steps, another order of them, or another head (-update writes it)")
			}
		})
	}
}

// A row of a table shows for each counter that a script counts it.
func TestCompleteCounters(t *testing.T) {
	steps := ""
	for name := range tables {
		text, err := os.ReadFile("testdata/" + name + ".txt")
		testkit.NoError(t, err)
		steps += string(text)
	}
	for field := range reflect.TypeFor[Counters]().Fields() {
		name := strings.ToLower(field.Name)
		if !regexp.MustCompile(`(?m)^\+ stats:.* ` + name + "=").MatchString(steps) {
			t.Errorf("no row of tablerows_test.go shows a script that counts %s", name)
		}
	}
}

// The usual ARGV of a script are ARGV that it has.
func TestUsualArgumentsExist(t *testing.T) {
	for _, s := range scripts {
		var known []string
		for i := range 20 { // more than a script has
			known = append(known, argNames(s)(i))
		}
		for _, word := range strings.Fields(usual[s.name]) {
			if name, _, _ := strings.Cut(word, "="); !slices.Contains(known, name) {
				t.Errorf("the script %s has no ARGV %s", s.name, name)
			}
		}
	}
}

// stepOf returns the step of a table that has the name of another step.
func stepOf(table, step string) string {
	name, _, _ := strings.Cut(step, "\n")
	_, rest, _ := strings.Cut(table, "\n"+name+"\n")
	rest, _, _ = strings.Cut(rest, "\n\n")
	return name + "\n" + rest + "\n"
}

// play runs a row in a bubble whose clock does not move.
func play(t *testing.T, r row) string {
	server := redistest.InBubble(t)
	db, _ := server.Client(redis.Options{})
	defer func() { _ = db.Close() }()
	p := New(Config{Slow: db, Fast: db, Prefix: "p", Replica: "r1", Outbox: 3, Log: slog.New(slog.DiscardHandler)})
	calls := &recorder{pool: p}
	ctx := t.Context()
	var heard []string
	ear := db.Subscribe(ctx, p.key("wake", "r1"), p.key("wake", "r2"))
	if _, err := ear.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ear.Close() }()
	messages := ear.Channel()
	now := time.Now()
	db.ZAdd(ctx, p.key("replicas"), redis.Z{Score: float64(now.UnixMilli()), Member: "r1"},
		redis.Z{Score: float64(now.UnixMilli()), Member: "r2"})
	for line := range strings.Lines(r.given) {
		var words []any
		for i, word := range strings.Fields(line) {
			if i == 1 {
				word = p.tag + word
			}
			words = append(words, fromNow(word, now))
		}
		if len(words) > 0 {
			if err := db.Do(ctx, words...).Err(); err != nil {
				t.Fatalf("%s: %s: %v", r.name, line, err)
			}
		}
	}
	before := dump(t, db, p.tag, now)
	db.AddHook(calls)
	result := r.call(p)
	if r.twice {
		result = r.call(p)
	}
	p.settle()
	synctest.Wait()
	for len(messages) > 0 {
		m := <-messages
		heard = append(heard, strings.TrimPrefix(m.Channel, p.tag)+" "+m.Payload)
	}
	after := dump(t, db, p.tag, now)
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", r.name)
	for _, call := range calls.list {
		fmt.Fprintf(&b, "> %s%s\n", toNow(call, now), map[bool]string{true: " twice"}[r.twice])
	}
	for _, line := range before {
		if !slices.Contains(after, line) {
			fmt.Fprintf(&b, "- %s\n", line)
		}
	}
	for _, line := range after {
		mark := "+"
		if slices.Contains(before, line) {
			mark = " "
		}
		fmt.Fprintf(&b, "%s %s\n", mark, line)
	}
	for _, message := range heard {
		fmt.Fprintf(&b, "! %s\n", message)
	}
	fmt.Fprintf(&b, "= %s\n", toNow(brief(fmt.Sprint(result)), now))
	return b.String()
}

// recorder lists the different calls of scripts with their ARGV.
type recorder struct {
	pool *Pool
	mu   sync.Mutex
	list []string
}

func (r *recorder) DialHook(next redis.DialHook) redis.DialHook { return next }
func (r *recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.note(cmd)
		return next(ctx, cmd)
	}
}

func (r *recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			r.note(cmd)
		}
		return next(ctx, cmds)
	}
}

func (r *recorder) note(cmd redis.Cmder) {
	for s, compiled := range r.pool.compiled {
		args := cmd.Args()
		if cmd.Name() != "evalsha" || args[1] != compiled.Hash() {
			continue
		}
		line, names, most := s.name, argNames(s), " "+usual[s.name]+" "
		for i, arg := range args[3+args[2].(int):] {
			value := strings.ReplaceAll(fmt.Sprint(arg), " ", "_")
			if value == fmt.Sprint(math.MaxInt64) {
				value = "never"
			}
			if name := " " + names(i) + "="; !strings.Contains(most, name+value+" ") &&
				(value != "" && value != "0" || strings.Contains(most, name)) {
				line += name + value
			}
		}
		r.mu.Lock()
		if !slices.Contains(r.list, line) {
			r.list = append(r.list, line)
		}
		r.mu.Unlock()
	}
}

var (
	argComment = regexp.MustCompile(`(?s)-- ARGV (.*?)\n(?:-- Reply|[^-])`)
	argLocals  = regexp.MustCompile(`local ([\w,\s]+) = unpack\(ARGV\)`)
	ofEach     = regexp.MustCompile(`^the | (of|for) each.*`)
	aside      = regexp.MustCompile(`\n--|\([^)]*\)`)
)

// argNames returns the name of each of a script's ARGV, as its comment has them: "1 id 2 call (why) 3 some words: why,
// then a, b for each budget", whose names repeat. Instead of some words it has the script's variable.
func argNames(s *script) func(i int) string {
	comment := argComment.FindStringSubmatch(s.body)
	if comment == nil {
		return strconv.Itoa
	}
	var locals []string
	if found := argLocals.FindStringSubmatch(s.body); found != nil {
		locals = strings.Fields(strings.ReplaceAll(found[1], ",", " "))
	}
	text, more, _ := strings.Cut(strings.Join(strings.Fields(aside.ReplaceAllString(comment[1], "")), " "), ", then ")
	var names []string
	for text != "" {
		i := len(names)
		_, text, _ = strings.Cut(" "+text, fmt.Sprintf(" %d ", i+1))
		this, next, is := strings.Cut(text, fmt.Sprintf(" %d ", i+2))
		if text = ""; is {
			text = fmt.Sprintf("%d %s", i+2, next)
		}
		this, _, _ = strings.Cut(this, ":")
		if strings.Contains(this, " ") && i < len(locals) {
			this = locals[i]
		}
		names = append(names, strings.ReplaceAll(this, " ", "_"))
	}
	rest := strings.Split(ofEach.ReplaceAllString(more, ""), ", ")
	return func(i int) string {
		if i < len(names) {
			return names[i]
		}
		return strings.ReplaceAll(rest[(i-len(names))%len(rest)], " ", "_")
	}
}

// brief leaves out the zero fields, and -1ms for none, of structs that were formatted with %+v.
func brief(text string) string {
	for before := ""; before != text; {
		before, text = text, zeroField.ReplaceAllString(text, "$1")
	}
	return strings.ReplaceAll(text, " }", "}")
}

var (
	zero      = `\b[A-Z]\w+:(?:0|0s|-1ms|\[\]|\{\}|0001-01-01 00:00:00 \+0000 UTC|)`
	zeroField = regexp.MustCompile(zero + " | ?" + zero + "(})")
	ofCount   = regexp.MustCompile(`(?m)^. (minutes|periods):.*\n| hour=\d+`)
	relative  = regexp.MustCompile(`now([+-]\d+)`)
	absolute  = regexp.MustCompile(`\b\d{13}(\d{3})?\b`)
)

func fromNow(word string, now time.Time) string {
	return relative.ReplaceAllStringFunc(word, func(s string) string {
		n, _ := strconv.ParseInt(s[3:], 10, 64)
		return strconv.FormatInt(now.UnixMilli()+n, 10)
	})
}

func toNow(s string, now time.Time) string {
	return absolute.ReplaceAllStringFunc(s, func(s string) string {
		n, _ := strconv.ParseInt(s[:13], 10, 64)
		return fmt.Sprintf("now%+d", n-now.UnixMilli())
	})
}

// dump lists the keys with their values and TTLs in ms.
func dump(t *testing.T, db *redis.Client, tag string, now time.Time) (lines []string) {
	ctx := context.Background()
	keys, err := db.Keys(ctx, "*").Result()
	testkit.NoError(t, err)
	slices.Sort(keys)
	for _, key := range keys {
		var value string
		switch kind := db.Type(ctx, key).Val(); kind {
		case "string":
			value = db.Get(ctx, key).Val()
		case "list":
			value = strings.Join(db.LRange(ctx, key, 0, -1).Val(), " ")
		case "set":
			members := db.SMembers(ctx, key).Val()
			slices.Sort(members)
			value = strings.Join(members, " ")
		case "zset":
			for _, z := range db.ZRangeWithScores(ctx, key, 0, -1).Val() {
				value += fmt.Sprintf("%v=%s ", z.Member, strconv.FormatFloat(z.Score, 'f', -1, 64))
			}
		case "hash":
			all := db.HGetAll(ctx, key).Val()
			var pairs []string
			for field, of := range all {
				pairs = append(pairs, field+"="+of)
			}
			slices.Sort(pairs)
			value = strings.Join(pairs, " ")
		case "stream":
			for _, m := range db.XRange(ctx, key, "-", "+").Val() {
				var pairs []string
				for field, of := range m.Values {
					pairs = append(pairs, fmt.Sprint(field, "=", of))
				}
				slices.Sort(pairs)
				value += "[" + strings.Join(pairs, " ") + "]"
			}
		}
		if strings.TrimPrefix(key, tag) == "replicas" && strings.Count(value, "=") == 2 {
			continue // of the test itself
		}
		line := strings.TrimPrefix(key, tag) + ": " + strings.TrimSpace(value)
		if ttl := db.PTTL(ctx, key).Val(); ttl > 0 {
			line += fmt.Sprintf(" (%d ms)", ttl.Milliseconds())
		}
		lines = append(lines, toNow(line, now))
	}
	return lines
}

// taken formats Take's results for a table.
func taken(token Token, err error) any {
	if err != nil {
		return describe(err)
	}
	return fmt.Sprintf("%s of %s, %s, born now%+d dies now%+d, TTL %v, source %s, extra %q", token.Value, token.Order,
		token.Provider, time.Until(token.Born).Milliseconds(), time.Until(token.Dies).Milliseconds(), token.TTL, token.Source,
		token.Extra)
}

func describe(err error) string {
	var rate *RateError
	var refused *NotPlacedError
	switch {
	case errors.As(err, &rate):
		return fmt.Sprint("rate limited, again in ", rate.RetryAfter)
	case errors.As(err, &refused):
		return strings.TrimSpace(fmt.Sprintf("%v, again in %v %s", err, refused.After, string(refused.Kind)+refused.Spent))
	}
	return fmt.Sprint(err)
}

// Two calls with one Idempotency-Key wait under one name; the name goes with the last of them.
func TestANameGoesWithItsLastWaiter(t *testing.T) {
	w := waiters{of: map[string][]chan struct{}{}}
	for _, calls := range []int{1, 2} {
		var stops []func()
		for range calls {
			_, stop := w.add("call", true)
			stops = append(stops, stop)
		}
		for _, stop := range stops {
			testkit.Equal(t, "it waits", w.has("call"), true)
			stop()
		}
		testkit.Equal(t, "it waits", w.has("call"), false)
	}
}

// Takes, cancels and beats have the connections of Fast; orders cannot hold them up.
func TestOrdersDoNotHoldUpTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := redistest.InBubble(t)
		hot, _ := server.Client(redis.Options{})
		slow, _ := server.Client(redis.Options{})
		testkit.NoError(t, slow.Close())
		defer func() { _ = hot.Close() }()
		p := New(Config{Slow: slow, Fast: hot, Prefix: "p", Replica: "r1", Log: slog.New(slog.DiscardHandler)})
		_, err := p.Beat(t.Context())
		testkit.NoError(t, err)
		_, err = p.Take(t.Context(), &Call{Name: "c", ID: "A"})
		testkit.Equal(t, "a take from the empty stock", fmt.Sprint(err), "pool: empty")
		if _, err = p.Begin(t.Context(), "o", "n"); err == nil {
			t.Error("an order uses Fast")
		}
	})
}
