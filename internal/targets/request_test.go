package targets

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/testkit"
)

const onPage = `"pageurl":"https://staging.example.com/login"`

// ReadSolve reads every field, and reports each fault of a request with its field and remedy, without the
// proxy and the picture. SolveOf accepts the same identities.
func TestReadSolve(t *testing.T) {
	checkFiles(t, "testdata/requests.txtar", func(file caseFile) string {
		got, err := ReadSolve(bytes.TrimSuffix(file.data, []byte("\n")))
		if err != nil && reflect.DeepEqual(got, SolveRequest{}) {
			return err.Error() + "\n"
		}
		same, err := SolveOf(got.Identity, got.Image)
		testkit.NoError(t, err)
		testkit.DeepEqual(t, "request of "+file.name, same,
			SolveRequest{Identity: got.Identity, Image: got.Image, Timeout: 2 * time.Minute, Dedup: DedupRequest})
		return fmt.Sprintf("accepted: %+v\n", got)
	})
	v2 := func(more string) string { return `{"type":"recaptcha_v2","sitekey":"k",` + onPage + more + `}` }
	for body, want := range map[string]string{
		v2(`,"user_agent":"` + strings.Repeat("a", 2049) +
			`"`): "user_agent: must not be longer than 2048 bytes",
		v2(`,"data_s":"` + strings.Repeat("CANARY", 3000) +
			`"`): "data_s: must not be longer than 16384 bytes",
		`{"type":"image","image":"` + base64.StdEncoding.EncodeToString(make([]byte, 1<<20+1)) +
			`"}`: "image: must be at most 1048576 bytes (1 MiB), not 1048577", `{"type":"image","image":"` +
			strings.Repeat("CANA", 1<<19+1) + `"}`: "image: must not be longer than 2097152 bytes",
	} {
		if _, err := ReadSolve([]byte(body)); err == nil || err.Error() != want {
			t.Errorf("%.200s: %v, want %s", body, err, want)
		}
	}
}

// A request never reads the daemon's environment.
func TestRequestsSeeNoEnvironment(t *testing.T) {
	t.Setenv("POOLD_TEST", canary)
	for _, text := range strings.Fields("${POOLD_TEST} ${POOLD_TEST:-a} ${UNSET} ${ $${POOLD_TEST} x${POOLD_TEST}") {
		r, err := ReadSolve([]byte(`{"type":"turnstile","sitekey":"` + text + `",` + onPage + `,"data":"` + text +
			`","action":"` + text + `"}`))
		if err != nil || r.Identity.Sitekey != text || r.Identity.Data != text || r.Identity.Action != text {
			t.Errorf("%s: %+v, %v", text, r, err)
		}
		_, err = ReadSolve([]byte(`{"type":"` + text + `","timeout":"` + text + `","min_score":"` + text + `","` + text +
			`":"` + text + `"}`))
		if err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// ReadSolve accepts the largest picture and hashes it.
func TestReadSolveAcceptsTheLargestPicture(t *testing.T) {
	data := make([]byte, captcha.MostPicture)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data)
	r, err := ReadSolve([]byte(`{"type":"image","image":"` + base64.StdEncoding.EncodeToString(data) + `"}`))
	sum := sha256.Sum256(data)
	if err != nil || !bytes.Equal(r.Image, data) || r.Identity.Picture.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("%d bytes, %s, %v", len(r.Image), r.Identity.Picture.SHA256, err)
	}
}

// Parsing a body needs at most 12 times the body's size in memory.
func TestReadSolveBoundsItsMemory(t *testing.T) {
	for name, body := range map[string]string{
		"fields": `{` + strings.Repeat(`"a":1,`, 300_000) + `"b":1}`,
		"names":  numberedFields(200_000),
		"depth":  `{"a":` + strings.Repeat(`[`, 1<<21),
		"spaces": `{"a":1` + strings.Repeat(` `, 1<<21) + `}`,
		"key":    `{"` + strings.Repeat(`a`, 1<<21) + `":1}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ReadSolve([]byte(body))
		runtime.ReadMemStats(&after)
		if err == nil || len(err.Error()) > 2000 {
			t.Errorf("%s: %.300v", name, err)
		}
		testkit.AtMost(t, name+": bytes that are allocated", after.TotalAlloc-before.TotalAlloc, uint64(12*len(body)))
	}
}

func numberedFields(n int) string {
	var body strings.Builder
	for i := range n {
		fmt.Fprintf(&body, `,"%d":1`, i)
	}
	return "{" + body.String()[1:] + "}"
}

// SolveOf reports the same faults as ReadSolve.
func TestSolveOfReportsFaults(t *testing.T) {
	v2 := captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: "k", Pageurl: "https://staging.example.com/login"}
	with := func(change func(id *captcha.Identity)) captcha.Identity {
		id := v2
		change(&id)
		return id
	}
	for _, tc := range []struct {
		id   captcha.Identity
		want string
	}{
		{captcha.Identity{Type: captcha.HCaptcha, Pageurl: v2.Pageurl}, "sitekey: is missing: hcaptcha needs it"},
		{with(func(id *captcha.Identity) { id.Data = "d" }), "data: belongs to turnstile, not to recaptcha_v2: remove it"},
		{with(func(id *captcha.Identity) { id.DataS = "a\xff" }), "data_s: must be valid UTF-8"},
		{with(func(id *captcha.Identity) { id.Proxy, id.ProxyType = "u:CANARY@h", "http" }),
			"proxy: must be host:port or user:password@host:port"},
		{with(func(id *captcha.Identity) { id.Type, id.MinScore = captcha.RecaptchaV3, 1 }),
			`min_score: must be a number from 0.1 to 0.9, not "1"`},
	} {
		if _, err := SolveOf(tc.id, nil); err == nil || err.Error() != tc.want {
			t.Errorf("%+v: %v, want %s", tc.id, err, tc.want)
		}
	}
}
