package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// The names and the bytes must not change, because other versions of poold read and write them.
func TestTheFileFormatIsStable(t *testing.T) {
	const name = "fc711e8e8fc0606e71d964ff1b1998897ae3213ea4780a110ab3dab1941225c8.json"
	for text, l := range map[string]Letter{
		`{"version":1,"order":"order-1.0123abcd","identity":"fc2942c577a5386e6ca58d3ddd8057bf","provider":"one","task":"t1","token":"03AF\u003c\u0026\u003eü-1",` +
			`"user_agent":"Mozilla/5.0","arrived":"2026-01-02T03:04:06.678Z","until":"2026-01-02T03:05:06.678Z"}`: letter(1),
		`{"version":1,"order":"order-1.0123abcd","identity":"fc2942c577a5386e6ca58d3ddd8057bf","provider":"one","task":"t1",` +
			`"code":"ERROR_CAPTCHA_UNSOLVABLE","refused":true,"arrived":"2026-01-02T03:04:06.678Z","until":"2026-01-02T03:05:06.678Z"}`: failure(1),
	} {
		s := opened(t)
		s.mustKeep(t, l)
		if data, err := os.ReadFile(s.path(l)); err != nil || string(data) != text || nameOf(l.Order) != name {
			t.Errorf("on disk: %v\n%s\nwant:\n%s", err, data, text)
		}
		s = opened(t)
		s.plant(t, name, text)
		s.wantAll(t, l)
	}
}

func TestInvalidLettersAreRefused(t *testing.T) {
	s := opened(t)
	for name, c := range map[string]struct {
		change func(*Letter)
		want   error
		says   string
	}{
		"no order":       {func(l *Letter) { l.Order = "" }, ErrBad, ": without an order"},
		"nothing":        {func(l *Letter) { l.Token = "" }, ErrBad, ": without a token and a code, or with both"},
		"token and code": {func(l *Letter) { l.Code = "ERROR" }, ErrBad, ": without a token and a code, or with both"},
		"no arrival":     {func(l *Letter) { l.Arrived = time.Time{} }, ErrBad, ": without a time"},
		"no end":         {func(l *Letter) { l.Until = time.Time{} }, ErrBad, ": without a time"},
		"no year":        {func(l *Letter) { l.Until = l.Until.AddDate(9000, 0, 0) }, ErrBad, ""},
		"a broken token": {func(l *Letter) { l.Token = "03AF\xff" }, ErrBad, ": with text that is not UTF-8"},
		"a broken order": {func(l *Letter) { l.Order = "\xff" }, ErrBad, ": with text that is not UTF-8"},
		"a large token":  {func(l *Letter) { l.Token = strings.Repeat("x", 65536) }, ErrTooLarge, ""},
		"a long browser": {func(l *Letter) { l.UserAgent = strings.Repeat("\x01", 65536/6) }, ErrTooLarge, ""},
	} {
		l := letter(1)
		c.change(&l)
		err := s.Keep(l)
		if !errors.Is(err, c.want) || !strings.HasPrefix(err.Error(), "storing a dead letter: "+c.want.Error()+c.says) {
			t.Errorf("%s: keep = %v, want %v%s", name, err, c.want, c.says)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the token is in the error: %v", name, err)
		}
	}
	s.wantCounts(t, 0, 0)
	if got := s.files(t); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
	// The largest letter that fits can be read again. A letter with one byte more does not fit.
	l := letter(1)
	l.UserAgent += strings.Repeat("x", 65536-len(encoded(t, l)))
	s.mustKeep(t, l)
	s.wantAll(t, l)
	s.wantCounts(t, 1, 0)
	l.Order += "x"
	if err := s.Keep(l); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a byte too many: keep = %v", err)
	}
}

func TestAListShowsNoSecret(t *testing.T) {
	const canary = "canary-4711"
	s := opened(t)
	token := letter(1)
	token.Order, token.Token, token.UserAgent = "visible\x1b[2J."+canary, canary, canary
	token.Task, token.Reason = "t\x1b[2J-1", "redis does not answer (\u202e127.0.0.1:6379)"
	token.Identity = canary
	token.Arrived = token.Arrived.In(time.FixedZone("elsewhere", 3600))
	fault := letter(2)
	fault.Token, fault.Code = "", "<ERROR>\x1b\r\n\u202e"+strings.Repeat("x", 2*mostShownText)
	s.mustKeep(t, fault, token)
	shown, err := s.Show(fault.Arrived.Add(90 * time.Second))
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
	want := fmt.Sprintf(`[{"order":"visible[2J","provider":"one","task":"t[2J-1","kind":"token","reason":"redis does not answer (127.0.0.1:6379)","arrived":"2026-01-02T03:04:06.678Z","age_s":91,"until":"2026-01-02T03:05:06.678Z","bytes":%d},`+
		`{"order":"order-2","provider":"one","task":"t2","kind":"error","code":"\u003cERROR\u003e%s","arrived":"2026-01-02T03:04:07.678Z","age_s":90,"until":"2026-01-02T03:05:07.678Z","bytes":%d}]`,
		len(encoded(t, token)), strings.Repeat("x", mostShownText-len("<ERROR>")), len(encoded(t, fault)))
	if string(text) != want {
		t.Errorf("list:\n%s\nwant:\n%s", text, want)
	}
}

// Without a folder, the list is empty and not null.
func TestAListWithoutAFolderIsEmpty(t *testing.T) {
	if shown, err := New("none").Show(letterTime); err != nil || shown == nil || len(shown) != 0 {
		t.Errorf("list: %v, %v", shown, err)
	}
}

// Show also sets bad files aside.
func TestAListSetsABadFileAside(t *testing.T) {
	s := opened(t)
	s.mustKeep(t, letter(0), letter(2))
	s.plant(t, nameOf(letter(1).Order), secret)
	shown, err := s.Show(letterTime)
	if want := nameOf(letter(1).Order) + ": not a dead letter: broken"; err == nil || err.Error() != want || len(shown) != 2 {
		t.Errorf("list: %v, %v, want %s", shown, err, want)
	}
	if shown, err := s.Show(letterTime); err != nil || !slices.IsSortedFunc(shown, func(x, y Summary) int { return x.Arrived.Compare(y.Arrived) }) {
		t.Errorf("list: %v, %v", shown, err)
	}
}
