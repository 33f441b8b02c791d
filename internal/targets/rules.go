package targets

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"

	"poold/internal/captcha"
)

// The maximum lengths of texts, in bytes.
const (
	maxText     = 2048
	maxLongText = 16 << 10
)

// text reads a text. No message quotes it, because it may be a secret. Numbers and booleans count as
// texts too, because an identifier may look like one. The text of a key without a value is "".
func (at *setting) text() bool {
	if !at.scalar("text") {
		return false
	}
	if isNull(at.node) {
		at.value = ""
	}
	most, odd := maxText, TextFault(at.value)
	if captcha.IsOfVisit(at.key) {
		most = maxLongText
	} else if at.key == "image" {
		most = 2 * captcha.MostPicture
	}
	return at.obey(
		check{at.r.request && at.node.Style&quotedStyle == 0, "must be text, in quotes"},
		// the JSON decoder replaces invalid bytes
		check{at.r.request && strings.ContainsRune(at.value, utf8.RuneError), "must be valid UTF-8"},
		check{odd != "", odd},
		check{strings.TrimSpace(at.value) != at.value, "must not begin or end with a space"},
		check{len(at.value) > most, fmt.Sprintf("must not be longer than %d bytes", most)},
	)
}

// TextFault returns why a text of an operator, such as an owner or the reason for a pause, cannot
// be shown in one line. It returns "" for a valid text. Line breaks, control characters, characters that change
// the direction of text, and the byte order mark that an editor writes into the file of a key are invalid.
func TextFault(text string) string {
	for _, c := range text {
		invisible := !unicode.IsGraphic(c) || c == 0x2800 ||
			unicode.In(c, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
		if invisible && (c < 0x200c || c > 0x200f) { // joiners and marks that some languages need
			return fmt.Sprintf("must not hold U+%04X: remove the line break, or the invisible character", c)
		}
	}
	return ""
}

// isPrintable reports whether a text consists of ASCII characters from the minimum to '~'.
func isPrintable(text string, minimum rune) bool {
	return strings.IndexFunc(text, func(c rune) bool { return c < minimum || c > '~' }) < 0
}

// not returns the end of a message about an invalid value, such as `, not "x"`. It quotes the value only if the file
// contains it literally. It must not be called for values that can be secrets.
func (at *setting) not() string {
	if len(at.names) > 0 {
		return fmt.Sprintf("; the value of ${%s} is something else", at.names[0])
	}
	return ", not " + quote(at.value)
}

// toSet returns the last part of a message, which lists the environment variables to set.
func toSet(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return ": set " + orList(names)
}

// check has the text of a rule, and whether a value violates it.
type check struct {
	bad  bool
	rule string
}

// first returns the rule of the first check that fails, or "".
func first(checks ...check) string {
	for _, f := range checks {
		if f.bad {
			return f.rule
		}
	}
	return ""
}

// obey reports the first rule that the value violates. It returns true if the value violates no rule.
func (at *setting) obey(checks ...check) bool {
	rule := first(checks...)
	if rule != "" {
		at.fail("%s", rule)
	}
	return rule == ""
}

// check reports a rule as violated by the value of a key, unless the rule is "".
func (at *setting) check(key, rule string) {
	if at.has(key) && at.ok(key) && rule != "" {
		at.keys[key].fail("%s", rule)
	}
}

// rule reports at a key that a rule between several keys does not hold. It reports nothing if the key's own value is
// invalid.
func (at *setting) rule(holds bool, key, format string, args ...any) {
	if !holds && at.ok(key) {
		at.at(key).fail(format, args...)
	}
}

// warnIf warns about a key that the section contains with a valid value.
func (at *setting) warnIf(odd bool, key, format string, args ...any) {
	if odd && at.has(key) && at.ok(key) {
		at.at(key).warn(format, args...)
	}
}

// compiled has the pattern of each form, because compiling one takes longer than reading a target.
var compiled sync.Map

// form checks the text against the tag form. Without a tag it allows every text.
func (at *setting) form() {
	pattern, want, _ := strings.Cut(at.tag.Get("form"), " ")
	if pattern == "" || at.bad {
		return
	}
	expression, known := compiled.Load(pattern)
	if !known {
		expression, _ = compiled.LoadOrStore(pattern, regexp.MustCompile(pattern))
	}
	if !expression.(*regexp.Regexp).MatchString(at.value) {
		at.fail("must be %s%s", want, at.not())
	}
}

// oneOf checks that the text, if there is one, is one of the words. Without words it allows every text.
func (at *setting) oneOf(words []string) {
	if at.node == nil || at.bad || len(words) == 0 || slices.Contains(words, at.value) {
		return
	}
	remedy := ""
	if meant := Nearest(at.value, words); meant != "" && len(at.names) == 0 {
		remedy = "; did you mean " + meant + "?"
	}
	at.fail("must be %s%s%s", orList(words), at.not(), remedy)
}

// WordsOf returns words of any type as texts.
func WordsOf[T ~string](words []T) (all []string) {
	for _, w := range words {
		all = append(all, string(w))
	}
	return all
}

// decode reads a rate such as 5/m: a number per second, minute or hour; 0.5/s becomes 1 per 2s.
func (r *Rate) decode(at *setting) {
	if !at.text() {
		return
	}
	count, unit, _ := strings.Cut(at.value, "/")
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	n, err := strconv.ParseFloat(count, 64)
	if at.obey(
		check{err != nil || per == 0 || !decimal.MatchString(count), "must be a rate such as 20/s, 30/m or 500/h" + at.not()},
		check{n <= 0 || n > 1e6, "must be above 0 and at most 1000000: for no limit, remove the line"},
		check{n < 1 && float64(per)/n > float64(day),
			"must be at least 1 in 24 hours: to hand out nothing, remove the target"},
	) {
		whole := max(1, math.Floor(n))
		*r = Rate{Count: int(whole), Per: time.Duration(float64(per) * whole / n)}
	}
}

// maxProblems is the maximum number of reported problems of one file, in the log and in the
// response to POST /-/reload.
const maxProblems = 200

// maxQuoted is the maximum number of bytes of a value or key that a message quotes.
const maxQuoted = 60

// Problem is one fault or one unusual setting in the file.
type Problem struct {
	File string `json:"file,omitempty"` // the path that the operator gave; "" for the body of a request
	Line int    `json:"line,omitempty"` // of the problem; 0 = none, as in a request or an unreadable file
	Text string `json:"text"`           // "key path: rule and remedy"; has no secret and no value of the environment

	column int // the column of the key, which orders problems of one line
}

// String formats the problem as "FILE:LINE: text". It omits unknown parts.
func (p Problem) String() string {
	where := p.File
	if p.Line > 0 {
		where += fmt.Sprintf(":%d", p.Line)
	}
	return strings.TrimPrefix(where+": "+p.Text, ": ")
}

// Problems is the list of all faults of a file, sorted by line.
type Problems []Problem

// Error returns one line for each problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// sorted returns the problems in the order of the file, at most maxProblems of them.
func (ps Problems) sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int { return cmp.Or(a.Line-b.Line, a.column-b.column) })
	if len(ps) <= maxProblems {
		return ps
	}
	rest := len(ps) - maxProblems
	return append(ps[:maxProblems:maxProblems], Problem{
		File: ps[0].File, Line: ps[maxProblems].Line, Text: fmt.Sprintf("and %d more problems", rest),
	})
}

// FileStatus describes the last attempt to read the file.
type FileStatus struct {
	LoadedAt  time.Time // time at which the Set in use was read; zero before the first Set
	OK        bool      // whether the last attempt found a valid file
	RefusedAt time.Time // time of the first attempt since then that found an invalid one; zero if OK is true
	Problems  []Problem // problems of the last attempt; if OK is true, the changes that need a restart
}

// quote shortens and quotes a literal value of the file. It escapes control characters, because
// they could control the terminal of the operator.
func quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.Quote(strings.ToValidUTF8(s[:maxQuoted], "")) + "…"
	}
	return strconv.Quote(s)
}

// pathPart returns a key as a part of a path of keys. It quotes a key that contains punctuation.
func pathPart(key string) string {
	if plainKey.MatchString(key) {
		return key
	}
	return quote(key)
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,60}$`)

// orList formats words as a text such as "a", "a or b" or "a, b or c".
func orList[T ~string](words []T) string {
	all := WordsOf(words)
	last := len(all) - 1
	if last == 0 {
		return all[0]
	}
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

// Nearest returns the known word whose spelling is most similar to the word, or "" if no known word
// is similar. If the word is a prefix of several known words, Nearest returns the first of these.
// The cost is bounded even for a very long word.
func Nearest(word string, known []string) string {
	same := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "-", "_") }
	word = same(word)
	best, bestDistance := "", max(1, min(2, len(word)/2))+len(word)/12+1
	for _, candidate := range known {
		other := same(candidate)
		if len(word) >= 4 && strings.HasPrefix(other, word) {
			return candidate
		}
		if longer := len(other) - len(word); max(longer, -longer) >= bestDistance {
			continue // the distance is at least the difference of the lengths
		}
		if d := levenshtein.ComputeDistance(word, other); d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	return best
}
