package spool

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
)

// letterTime is when the first dead letter of a test arrived.
var letterTime = time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)

// exampleDeadLetter is the n-th dead letter of a test, a second younger than the one before.
func exampleDeadLetter(n int) Letter {
	at := letterTime.Add(time.Duration(n) * time.Second)
	return Letter{
		Order: fmt.Sprintf("order-%d.0123abcd", n), Identity: "fc2942c577a5386e6ca58d3ddd8057bf", Provider: "one", Task: fmt.Sprint("t", n),
		Token: fmt.Sprintf("03AF<&>ü-%d", n), UserAgent: "Mozilla/5.0", Arrived: at, Until: at.Add(time.Minute),
	}
}

// openDeadLetters is an open spool of dead letters and its folder.
func openDeadLetters(t *testing.T) (d Letters, folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "deep", "dead-letters")
	d = NewLetters(folder)
	if err := d.Open(); err != nil {
		t.Fatal(err)
	}
	return d, folder
}

func (d Letters) mustKeep(t *testing.T, letters ...Letter) {
	t.Helper()
	for _, l := range letters {
		if err := d.Keep(l); err != nil {
			t.Fatal(err)
		}
	}
}

// all is what each gives without an order of identities.
func (d Letters) all() (letters []Letter, err error) {
	err = d.Each(nil, func(l Letter, _ int64) bool {
		letters = append(letters, l)
		return true
	})
	return letters, err
}

// letterPath is where the dead letter of an order lies.
func letterPath(folder, order string) string {
	sum := sha256.Sum256([]byte(order))
	return filepath.Join(folder, hex.EncodeToString(sum[:])+".json")
}

func TestDeadLettersComeBack(t *testing.T) {
	d, folder := openDeadLetters(t)
	fault := exampleDeadLetter(0)
	fault.Token, fault.UserAgent, fault.Code, fault.Refused = "", "", "ERROR_CAPTCHA_UNSOLVABLE", true
	hostile := exampleDeadLetter(1)
	hostile.Order = "../../etc/passwd\x00\n"
	hostile.Arrived = hostile.Arrived.In(time.FixedZone("elsewhere", 3600))
	d.mustKeep(t, exampleDeadLetter(3), hostile, exampleDeadLetter(2), fault) // not by age
	hostile.Arrived = hostile.Arrived.UTC()
	want := []Letter{fault, hostile, exampleDeadLetter(2), exampleDeadLetter(3)}

	// A later process finds the same.
	for _, d := range []Letters{d, NewLetters(folder)} {
		if got, err := d.all(); err != nil || !slices.Equal(got, want) {
			t.Errorf("came back: %v\n%+v\nwant:\n%+v", err, got, want)
		}
		if n := d.Count(); n != 4 {
			t.Errorf("%d letters are counted", n)
		}
	}

	n := 0
	if err := d.Each(nil, func(Letter, int64) bool { n++; return n < 2 }); err != nil || n != 2 {
		t.Errorf("each went on to %d letters after false: %v", n, err)
	}
	// What a replay does: removing while it goes through them.
	n = 0
	if err := d.Each(nil, func(l Letter, _ int64) bool {
		n++
		for _, order := range []string{l.Order, exampleDeadLetter(3).Order} {
			if err := d.Remove(order); err != nil {
				t.Error(err)
			}
		}
		d.mustKeep(t, exampleDeadLetter(9))
		return true
	}); err != nil || n != 3 {
		t.Errorf("each gave %d letters, %v", n, err)
	}
	if got, err := d.all(); err != nil || !slices.Equal(got, []Letter{exampleDeadLetter(9)}) {
		t.Errorf("left: %+v, %v", got, err)
	}
}

// A folder of another version of poold: names and bytes are the same.
func TestLettersOnDisk(t *testing.T) {
	fault := exampleDeadLetter(1)
	fault.Token, fault.UserAgent, fault.Code, fault.Refused = "", "", "ERROR_CAPTCHA_UNSOLVABLE", true
	for text, l := range map[string]Letter{
		`{"version":1,"order":"order-1.0123abcd","identity":"fc2942c577a5386e6ca58d3ddd8057bf","provider":"one","task":"t1","token":"03AF\u003c\u0026\u003eü-1",` +
			`"user_agent":"Mozilla/5.0","arrived":"2026-01-02T03:04:06.678Z","until":"2026-01-02T03:05:06.678Z"}`: exampleDeadLetter(1),
		`{"version":1,"order":"order-1.0123abcd","identity":"fc2942c577a5386e6ca58d3ddd8057bf","provider":"one","task":"t1",` +
			`"code":"ERROR_CAPTCHA_UNSOLVABLE","refused":true,"arrived":"2026-01-02T03:04:06.678Z","until":"2026-01-02T03:05:06.678Z"}`: fault,
	} {
		const name = "fc711e8e8fc0606e71d964ff1b1998897ae3213ea4780a110ab3dab1941225c8.json"
		d, folder := openDeadLetters(t)
		d.mustKeep(t, l)
		if data, err := os.ReadFile(filepath.Join(folder, name)); err != nil || string(data) != text {
			t.Errorf("on disk: %v\n%s\nwant:\n%s", err, data, text)
		}
		d, folder = openDeadLetters(t)
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := d.all(); err != nil || !slices.Equal(got, []Letter{l}) {
			t.Errorf("read: %+v, %v", got, err)
		}
	}
}

// Dead letters are sorted by the identities in the ids of their orders.
func TestLettersInAnOrderOfIdentities(t *testing.T) {
	d, _ := openDeadLetters(t)
	low, high := captcha.ID(strings.Repeat("0", 32)), captcha.ID(strings.Repeat("f", 32))
	var orders []string
	for i, id := range []captcha.ID{high, low, high, low} {
		l := exampleDeadLetter(i)
		l.Order = fmt.Sprintf("o%d.%s", i, id)
		orders = append(orders, l.Order)
		d.mustKeep(t, l)
	}
	foreign := exampleDeadLetter(4) // an order without an identity
	d.mustKeep(t, foreign)
	var got []string
	identity := func(order string) string {
		if _, id, _ := strings.Cut(order, "."); len(id) == len(low) {
			return id
		}
		return ""
	}
	err := d.Each(func(x, y string) int { return strings.Compare(identity(x), identity(y)) }, func(l Letter, _ int64) bool {
		got = append(got, l.Order)
		return true
	})
	if want := []string{foreign.Order, orders[1], orders[3], orders[0], orders[2]}; err != nil || !slices.Equal(got, want) {
		t.Errorf("each gave %q, %v, want %q", got, err, want)
	}
}

func TestDeadLettersThatAreNone(t *testing.T) {
	d, _ := openDeadLetters(t)
	for name, c := range map[string]struct {
		change func(*Letter)
		want   error
	}{
		"no order":          {func(l *Letter) { l.Order = "" }, ErrBad},
		"nothing":           {func(l *Letter) { l.Token = "" }, ErrBad},
		"token and code":    {func(l *Letter) { l.Code = "ERROR" }, ErrBad},
		"no arrival":        {func(l *Letter) { l.Arrived = time.Time{} }, ErrBad},
		"no end":            {func(l *Letter) { l.Until = time.Time{} }, ErrBad},
		"no year":           {func(l *Letter) { l.Until = l.Until.AddDate(9000, 0, 0) }, ErrBad},
		"a broken token":    {func(l *Letter) { l.Token = "03AF\xff" }, ErrBad},
		"a broken order":    {func(l *Letter) { l.Order = "\xff" }, ErrBad},
		"a large token":     {func(l *Letter) { l.Token = strings.Repeat("x", 65536) }, ErrTooLarge},
		"a swollen browser": {func(l *Letter) { l.UserAgent = strings.Repeat("\x01", 65536/6) }, ErrTooLarge},
	} {
		l := exampleDeadLetter(1)
		c.change(&l)
		err := d.Keep(l)
		if !errors.Is(err, c.want) || !strings.HasPrefix(err.Error(), "storing a dead letter: "+c.want.Error()) {
			t.Errorf("%s: keep = %v, want %v", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "03AF") {
			t.Errorf("%s: the token is in the error: %v", name, err)
		}
	}
	// The largest one that fits is read again.
	l := exampleDeadLetter(1)
	data, err := l.encode()
	if err != nil {
		t.Fatal(err)
	}
	l.UserAgent += strings.Repeat("x", 65536-len(data))
	d.mustKeep(t, l)
	if got, err := d.all(); err != nil || !slices.Equal(got, []Letter{l}) {
		t.Errorf("the largest letter: %d letters, %v", len(got), err)
	}
	if n := d.Count(); n != 1 {
		t.Errorf("%d letters are counted", n)
	}
}

// A file that is no dead letter blocks no other, is told of once and by name alone, and
// makes room for the dead letter itself.
func TestFilesThatAreNoLetters(t *testing.T) {
	data, err := exampleDeadLetter(1).encode()
	if err != nil {
		t.Fatal(err)
	}
	const canary = "03AF"
	whole := string(data)
	for what, c := range map[string]struct{ text, says string }{
		"empty":             {"", "broken"},
		"truncated":         {whole[:len(whole)/2], "broken"},
		"no JSON":           {canary, "broken"},
		"a wrong type":      {`{"version":1,"order":["` + canary + `"]}`, "broken"},
		"a wrong time":      {`{"version":1,"arrived":"` + canary + `"}`, "broken"},
		"two documents":     {whole + whole, "broken"},
		"a flipped byte":    {strings.Replace(whole, `03AF`, "03\xffAF", 1), "broken"},
		"a foreign version": {strings.Replace(whole, `"version":1`, `"version":2`, 1), "of version 2"},
		"no version":        {strings.Replace(whole, `"version":1,`, ``, 1), "of version 0"},
		"no order":          {strings.Replace(whole, `"order"`, `"broken"`, 1), "without an order"},
		"another order":     {strings.Replace(whole, `order-1`, `order-2`, 1), "of another order than its name says"},
		"no token":          {strings.Replace(whole, `"token"`, `"broken"`, 1), "without a token and a code, or with both"},
		"no end":            {strings.Replace(whole, `"until"`, `"broken"`, 1), "without a time"},
		"too large":         {whole + strings.Repeat(" ", 65536), "too large"},
	} {
		t.Run(what, func(t *testing.T) {
			others := []Letter{exampleDeadLetter(0), exampleDeadLetter(2)}
			for read, meet := range map[string]func(Letters) ([]string, error){
				"each": func(d Letters) (read []string, err error) {
					letters, err := d.all()
					for _, l := range letters {
						read = append(read, l.Arrived.String())
					}
					return read, err
				},
				"show": func(d Letters) (read []string, err error) {
					shown, err := d.Show(letterTime)
					for _, l := range shown {
						read = append(read, l.Arrived.String())
					}
					return read, err
				},
			} {
				d, folder := openDeadLetters(t)
				d.mustKeep(t, others...)
				path := letterPath(folder, exampleDeadLetter(1).Order)
				if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
					t.Fatal(err)
				}
				got, err := meet(d)
				want := filepath.Base(path) + ": not a dead letter: " + c.says
				if !errors.Is(err, ErrBad) || err.Error() != want {
					t.Errorf("%s told %v, want %s", read, err, want)
				}
				if !slices.Equal(got, []string{others[0].Arrived.String(), others[1].Arrived.String()}) {
					t.Errorf("%s gave %q", read, got)
				}
				if got, err := d.all(); err != nil || !slices.Equal(got, others) || d.Count() != 2 || d.SetAside() != 1 {
					t.Errorf("%s, once more: %+v, %v; %d letters, %d set aside", read, got, err, d.Count(), d.SetAside())
				}
				d.mustKeep(t, exampleDeadLetter(1))
				if got, err := d.all(); err != nil || len(got) != 3 {
					t.Errorf("after keep: %+v, %v", got, err)
				}
			}
		})
	}
}

// A dead letter that is spoiled after the folder was listed blocks no other either.
func TestALetterThatIsSpoiledMeanwhile(t *testing.T) {
	d, folder := openDeadLetters(t)
	d.mustKeep(t, exampleDeadLetter(0), exampleDeadLetter(1), exampleDeadLetter(2))
	var got []Letter
	err := d.Each(nil, func(l Letter, _ int64) bool {
		if len(got) == 0 {
			if err := os.WriteFile(letterPath(folder, exampleDeadLetter(1).Order), []byte("{"), 0o600); err != nil {
				t.Error(err)
			}
		}
		got = append(got, l)
		return true
	})
	if !errors.Is(err, ErrBad) || !slices.Equal(got, []Letter{exampleDeadLetter(0), exampleDeadLetter(2)}) {
		t.Errorf("each gave %+v, %v", got, err)
	}
	if d.Count() != 2 || d.SetAside() != 1 {
		t.Errorf("%d letters, %d set aside", d.Count(), d.SetAside())
	}
}

func TestAListShowsNoSecret(t *testing.T) {
	const canary = "canary-4711"
	d, folder := openDeadLetters(t)
	token := exampleDeadLetter(1)
	token.Order, token.Token, token.UserAgent = "visible\x1b[2J."+canary, canary, canary
	token.Task, token.Reason = "t\x1b[2J-1", "redis does not answer (\u202e127.0.0.1:6379)"
	token.Identity = canary
	token.Arrived = token.Arrived.In(time.FixedZone("elsewhere", 3600))
	fault := exampleDeadLetter(2)
	fault.Token, fault.Code = "", "<ERROR>\x1b\r\n\u202e"+strings.Repeat("x", 2*mostShownText)
	d.mustKeep(t, fault, token)
	shown, err := d.Show(fault.Arrived.Add(90 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(shown)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), canary) {
		t.Errorf("a secret is shown: %s", text)
	}
	size := func(l Letter) int64 {
		info, err := os.Stat(letterPath(folder, l.Order))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	want := fmt.Sprintf(`[{"order":"visible[2J","provider":"one","task":"t[2J-1","kind":"token","reason":"redis does not answer (127.0.0.1:6379)","arrived":"2026-01-02T03:04:06.678Z","age_s":91,"until":"2026-01-02T03:05:06.678Z","bytes":%d},`+
		`{"order":"order-2","provider":"one","task":"t2","kind":"error","code":"\u003cERROR\u003e%s","arrived":"2026-01-02T03:04:07.678Z","age_s":90,"until":"2026-01-02T03:05:07.678Z","bytes":%d}]`,
		size(token), strings.Repeat("x", mostShownText-len("<ERROR>")), size(fault))
	if string(text) != want {
		t.Errorf("list:\n%s\nwant:\n%s", text, want)
	}
}

// No folder holds no dead letters: the list is empty, not null.
func TestAListOfNoFolder(t *testing.T) {
	d := NewLetters(filepath.Join(t.TempDir(), "none"))
	if shown, err := d.Show(letterTime); err != nil || shown == nil || len(shown) != 0 {
		t.Errorf("list: %v, %v", shown, err)
	}
}
