package targets

import (
	"cmp"
	"crypto/sha256"
	_ "embed" // pools.schema.json
	"encoding/hex"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"poold/internal/captcha"
)

// Parse parses the bytes of a configuration file. The argument `file` is the file name for messages.
// Parse calls the functions of refs for the references in the file. The error has the type Problems
// and contains all problems of the file. If there is an error, the Set is nil.
func Parse(file string, data []byte, refs References) (*Set, error) {
	r := &reader{file: file, refs: refs}
	set := r.readFile(data)
	if len(r.problems) > 0 {
		return nil, r.problems.sorted()
	}
	sum := sha256.Sum256(data)
	set.Warnings, set.Digest = r.warnings.sorted(), hex.EncodeToString(sum[:])
	return set, nil
}

// preset sets the defaults of a file.
func (f *file) preset() {
	f.Set = Set{
		Server: Server{Listen: "127.0.0.1:8080", Connections: 4096},
		Redis:  Redis{URL: "embedded", Prefix: "captcha"}, ProvidersPolicy: ProvidersOrdered,
		Dedup:   Dedup{Backend: DedupRedis},
		History: History{Backend: HistoryRedis, Audit: 7 * 24 * time.Hour, ActiveItems: true},
	}
	f.Notify.Kinds = strings.Fields(
		"provider_down provider_up balance_low balance_ok budget_near budget_used_up budget_ok target_refused " +
			"target_failing target_ok reload_applied reload_refused redis_down redis_up redis_lost replica_gone replica_back")
	f.Letters.Dir = "./dead-letters"
	f.Defaults = defaults{Depth: 5, Refill: RefillFixed, HitRate: DefaultHitRate, MissCost: DefaultMissCost,
		OnEmpty: OnEmptyFail}
}

// readFile decodes the file and checks the rules between its sections. It continues after a problem,
// so that all problems are reported. Each section checks itself when it is decoded, targets after
// everything that they depend on.
func (r *reader) readFile(data []byte) *Set {
	node, problem := document(data)
	if problem != nil {
		problem.File = r.file
		r.problems = Problems{*problem}
		return nil
	}
	f := new(file)
	top := &setting{r: r, node: node, line: node.Line}
	top.decode(reflect.ValueOf(f).Elem())
	if top.keys == nil {
		return nil // the file is not a mapping of sections
	}
	top.require("targets")
	set := &f.Set
	r.set = set
	set.Budget, set.DeadLetters, set.lifetimes = Budget{PerDay: f.Overall.PerDay, Money: f.Overall.Money}, f.Letters.Dir,
		f.Types
	if !top.has("history") {
		set.History.validate(top.at("history")) // sets the defaults of the backend
	}
	if top.at("redis").bad {
		set.Redis.URL = "" // unknown, so that rules about it report nothing
	}
	set.checkProviders(top.at("providers"))
	f.Defaults.ProvidersPolicy = cmp.Or(f.Defaults.ProvidersPolicy, set.ProvidersPolicy)
	if targets := top.at("targets"); targets.node != nil && !targets.bad {
		set.readTargets(targets, top.at("defaults"), Target(f.Defaults))
	}
	set.Server.checkKeys(top.at("server"), set)
	if solve := top.at("solve"); solve.keys != nil && !solve.has("owner") {
		set.Solve.Owner = f.Defaults.Owner
		solve.rule(top.at("defaults").has("owner"), "owner",
			"is missing: name the person or team responsible for these solves, here or under defaults")
	}
	set.checkBudgets(top)
	set.warnUnusual(top)
	kept := *set // a copy, so that the garbage collector can free f, which contains the texts of the server keys
	return &kept
}

// readTargets decodes the targets, each over a copy of the defaults, and reports targets with equal identities.
func (s *Set) readTargets(at, inherited *setting, defaults Target) {
	byID := map[captcha.ID]*setting{}
	at.mapping("staging-login: …", func(name string, item *setting) {
		if !targetName.MatchString(name) {
			item.fail("a target's name is 1 to 63 of a-z, 0-9, ., _ and -, beginning with a letter or digit")
		}
		t := defaults
		t.Name, item.defaults = name, inherited
		item.decode(reflect.ValueOf(&t).Elem())
		if first := byID[t.ID]; t.ID == "" {
			return
		} else if first != nil {
			item.fail("has the same identity as %s in line %d, so both would share one stock: "+
				"remove one, or change its type, sitekey, pageurl or another field of the identity", first.path, first.line)
			return
		}
		byID[t.ID] = item
		at.keys[name] = item
		s.Targets = append(s.Targets, t)
	})
	if at.keys != nil && len(at.node.Content) == 0 {
		// A daemon without targets does nothing, so such a file was probably truncated.
		at.fail("has no target: add at least one, with paused: true to buy nothing")
	}
	// YAML mappings have no order. Sorting keeps the order on /status stable.
	slices.SortFunc(s.Targets, func(a, b Target) int { return strings.Compare(a.Name, b.Name) })
}

//go:embed pools.schema.json
var poolsSchema []byte

// Schema returns the JSON Schema (draft 2020-12) of the file: the keys with their types, ranges and
// defaults. The schema accepts every file that Parse accepts. It does not check the ranges of
// durations, the forms of texts, and the rules between keys. TestSchema writes it.
func Schema() []byte { return poolsSchema }

// Currency is the code or the sign that is shown with amounts of money; "" = none. It has no meaning
// for poold itself.
type Currency string

var currencyCode = regexp.MustCompile(`^[A-Z]{3}$`)

// With adds the currency to the text of an amount: a sign precedes the amount, and a code follows it.
func (c Currency) With(amount string) string {
	if c == "" || currencyCode.MatchString(string(c)) {
		return strings.TrimSpace(amount + " " + string(c))
	}
	return string(c) + amount
}
