package targets

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
)

const onPage = `"pageurl":"https://staging.example.com/login"`

func TestReadSolveReadsEveryField(t *testing.T) {
	const page = "https://staging.example.com/login"
	sum := sha256.Sum256([]byte("\x00\xffpicture"))
	asked := func(id captcha.Identity) SolveRequest {
		return SolveRequest{Identity: id, Timeout: 2 * time.Minute, Dedup: DedupRequest}
	}
	identityOnly := func(r SolveRequest) SolveRequest {
		r.Timeout, r.Dedup, r.DedupProxy = 1500*time.Millisecond, DedupIdentity, true
		return r
	}
	withImage := func(p captcha.Picture) SolveRequest {
		p.SHA256 = hex.EncodeToString(sum[:])
		r := asked(captcha.Identity{Type: captcha.Image, Picture: p})
		r.Image = []byte("\x00\xffpicture")
		return r
	}
	for body, want := range map[string]SolveRequest{
		`{"type":"recaptcha_v2","sitekey":"k",` + onPage + `}`: asked(captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: "k", Pageurl: page}),
		` { "type" : "recaptcha_v2", "sitekey": "12345", ` + onPage + `, "invisible":true, "enterprise":true, "data_s":"a/b+c", "user_agent":"Mozilla (X11)",
			"proxy":"u:p@h:1", "proxy_type":"http", "timeout":"1.5s", "dedup":"identity", "dedup_proxy":true } ` + "\n": identityOnly(asked(captcha.Identity{
			Type: captcha.RecaptchaV2, Sitekey: "12345", Pageurl: page, Invisible: true, Enterprise: true, DataS: "a/b+c", UserAgent: "Mozilla (X11)", Proxy: "u:p@h:1", ProxyType: "http"})),
		`{"type":"recaptcha_v3","sitekey":"k",` + onPage + `,"action":"log\u0069n","min_score":0.30,"enterprise":false,"proxy":"","proxy_type":"http","dedup_proxy":false}`: asked(captcha.Identity{
			Type: captcha.RecaptchaV3, Sitekey: "k", Pageurl: page, Action: "login", MinScore: 0.3}),
		`{"type":"hcaptcha","sitekey":"k",` + onPage + `,"rqdata":"` + strings.Repeat("q", maxLongText) + `"}`: asked(captcha.Identity{
			Type: captcha.HCaptcha, Sitekey: "k", Pageurl: page, RQData: strings.Repeat("q", maxLongText)}),
		`{"type":"turnstile","sitekey":"k",` + onPage + `,"action":"a","data":"d","dedup":"request"}`: asked(captcha.Identity{Type: captcha.Turnstile, Sitekey: "k", Pageurl: page, Action: "a", Data: "d"}),
		`{"type":"geetest","gt":"g","challenge":"c",` + onPage + `,"api_server":"api-na.geetest.com"}`: asked(captcha.Identity{
			Type: captcha.GeeTest, Pageurl: page, GT: "g", Challenge: "c", APIServer: "api-na.geetest.com"}),
		`{"type":"geetest_v4","captcha_id":"g",` + onPage + `,"user_agent":"x"}`: asked(captcha.Identity{Type: captcha.GeeTestV4, Pageurl: page, CaptchaID: "g", UserAgent: "x"}),
		`{"type":"image","image":"AP9waWN0dXJl"}`:                                withImage(captcha.Picture{}),
		`{"type":"image","image":"AP9waWN0dXJl","charset":"digits_or_letters","case_sensitive":true,"min_length":4,"max_length":4,"phrase":true,"math":true,"language":"de",
			"instructions":"the red ones"}`: withImage(captcha.Picture{Charset: captcha.DigitsOrLetters, CaseSensitive: true, MinLength: 4, MaxLength: 4, Phrase: true, Math: true,
			Language: "de", Instructions: "the red ones"}),
	} {
		got, err := ReadSolve([]byte(body))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%.200s\n%+v, %v\nwant:\n%+v", body, got, err, want)
		}
	}
}

// ReadSolve reports each fault of a request with its field and remedy.
func TestReadSolveReportsFaults(t *testing.T) {
	v2 := func(more string) string { return `{"type":"recaptcha_v2","sitekey":"k",` + onPage + more + `}` }
	image := func(more string) string { return `{"type":"image","image":` + more + `}` }
	notBase64 := "image: must be the picture's bytes as base64, with + and /, padded with ="
	known := "unknown key: known here are action, api_server, captcha_id, case_sensitive, challenge, charset, data, data_s, dedup, dedup_proxy, enterprise, gt, image, " +
		"instructions, invisible, language, math, max_length, min_length, min_score, pageurl, phrase, proxy, proxy_type, rqdata, sitekey, timeout, type, user_agent"
	for _, tc := range []struct{ body, want string }{
		{`{}`, "type: is missing"},
		{``, "the body ends inside its JSON value"},
		{`{"type":"recap`, "the body ends inside its JSON value"},
		{`{"type":"turnstile"`, "the body ends inside its JSON value"},
		{`[]`, `the body must be one JSON object: {"type": …}`},
		{`"CANARY"`, `the body must be one JSON object: {"type": …}`},
		{`CANARY`, "the body is not JSON: look after byte 0"},
		{"\xef\xbb\xbf{}", "the body is not JSON: look after byte 0"},
		{v2("") + ` {}`, "the body must end with its JSON value: remove what follows"},
		{v2("") + `CANARY`, "the body must end with its JSON value: remove what follows"},
		{v2(","), "the body is not JSON: look after byte 83"},
		{v2(`,"proxy":'CANARY'`), "the body is not JSON: look after byte 91"},
		{v2(`,"action":01`), "the body is not JSON: look after byte 93"},
		{v2(`,"proxy":{"a":[{}]}`), "proxy: must be a single value, not an object or a list"},
		{v2(`,"invisible":[true]`), "invisible: must be a single value, not an object or a list"},
		{v2(`,"invisible":true,"invisible":true`), "invisible: must be given once"},
		{v2(`,"proxy":null`), "proxy: is null: give text, or leave it out"},
		{v2(`,"timeout":null,"invisible":null,"dedup":null`),
			"timeout: is null: give a duration from 1s to 5m, or leave it out\ninvisible: is null: give true or false, or leave it out\ndedup: is null: give text, or leave it out"},
		{v2(`,"proxy":5,"user_agent":true,"data_s":1.5`), "proxy: must be text, in quotes\nuser_agent: must be text, in quotes\ndata_s: must be text, in quotes"},
		{v2(`,"invisible":"true","enterprise":1`), "invisible: must be true or false, not text in quotes\nenterprise: must be true or false, not \"1\""},
		{v2(`,"timeout":30`), "timeout: needs a unit (ms, s, m or h): write 30s, for example"},
		{v2(`,"timeout":"301s"`), `timeout: must be a duration from 1s to 5m, such as 90s or 1m30s, not "301s"`},
		{v2(`,"timeout":"0.9s"`), `timeout: must be a duration from 1s to 5m, such as 90s or 1m30s, not "0.9s"`},
		{v2(`,"dedup":"identiti"`), `dedup: must be request or identity, not "identiti"; did you mean identity?`},
		{v2(`,"dedup_proxy":true`), "dedup_proxy: belongs to dedup: identity: remove it, or set dedup"},
		{v2(`,"dedup":"identiti","dedup_proxy":true`), `dedup: must be request or identity, not "identiti"; did you mean identity?`},
		{v2(`,"sitekeys":"k","nonsense":1,"":2,"<<":{}`), "\"<<\": must be a single value, not an object or a list"},
		{v2(`,"sitekeys":"k"`), "sitekeys: unknown key: did you mean sitekey?"},
		{v2(`,"Sitekey":"k"`), "sitekey: must be given once"},
		{v2(`,"nonsense":1,"":2`), "nonsense: " + known + "\n\"\": " + known},
		{v2(`,"pingback":"https://CANARY"`), "pingback: " + known},
		{v2(`,"websiteURL":"https://CANARY"`), "websiteURL: unknown field: did you mean pageurl?"},
		{v2(`,"data_s":"a` + "\xff" + `"`), "data_s: must be valid UTF-8"},
		{v2(`,"data_s":"\ud800"`), "data_s: must be valid UTF-8"},
		{v2(`,"data_s":"a\u0000b"`), "data_s: must not hold line breaks or other control characters"},
		{v2(`,"user_agent":" a"`), "user_agent: must not begin or end with a space"},
		{v2(`,"user_agent":"` + strings.Repeat("a", 2049) + `"`), "user_agent: must not be longer than 2048 bytes"},
		{v2(`,"data_s":"` + strings.Repeat("CANARY", 3000) + `"`), "data_s: must not be longer than 16384 bytes"},
		{v2(`,"proxy":"u:CANARY@h","proxy_type":"http"`), "proxy: must be host:port or user:password@host:port"},
		{v2(`,"proxy":"http://u:CANARY@h:1"`), "proxy: must be host:port or user:password@host:port: the scheme before :// belongs under proxy_type"},
		{v2(`,"proxy":"u:CANARY@h:1"`), "proxy: needs proxy_type: http, https, socks4 or socks5"},
		{v2(`,"proxy_type":"http"`), "proxy_type: needs proxy: remove it, or give host:port"},
		{v2(`,"data":"d","gt":"g","action":"a","min_score":0.3,"rqdata":"r"`), "action: belongs to recaptcha_v3 or turnstile, not to recaptcha_v2: remove it\n" +
			"min_score: belongs to recaptcha_v3, not to recaptcha_v2: remove it\ndata: belongs to turnstile, not to recaptcha_v2: remove it\n" +
			"rqdata: belongs to hcaptcha, not to recaptcha_v2: remove it\ngt: belongs to geetest, not to recaptcha_v2: remove it"},
		{`{"type":"recaptcha_v2","sitekey":"a b","pageurl":"https://u:CANARY@h/"}`,
			"sitekey: must be 1 to 256 characters without spaces, not \"a b\"\npageurl: must not hold a user and password"},
		{`{"type":"recaptcha_v4","min_score":0.3}`, `type: must be recaptcha_v2, recaptcha_v3, hcaptcha, turnstile, geetest, geetest_v4 or image, not "recaptcha_v4"; did you mean recaptcha_v2?`},
		{`{"type":"hcaptcha"}`, "sitekey: is missing: hcaptcha needs it\npageurl: is missing: hcaptcha needs it"},
		{`{"type":"geetest"}`, "pageurl: is missing: geetest needs it\ngt: is missing: geetest needs it\nchallenge: is missing: geetest needs it"},
		{`{"type":"geetest_v4","gt":"g",` + onPage + `}`, "gt: belongs to geetest, not to geetest_v4: remove it\ncaptcha_id: is missing: geetest_v4 needs it"},
		{`{"type":"geetest","gt":"g","challenge":"","api_server":"https://CANARY/",` + onPage + `}`,
			"challenge: must be 1 to 256 characters without spaces, not \"\"\napi_server: must be a host's name such as api-na.geetest.com, not \"https://CANARY/\""},
		{`{"type":"image"}`, "image: is missing: image needs it"},
		{image(`""`), "image: must not be empty"},
		{image(`5`), "image: must be text, in quotes"},
		{image(`"CANARY"`), notBase64},
		{image(`"CANARY!!"`), notBase64},
		{image(`"CANA-_=="`), notBase64},
		{image(`"QQ"`), notBase64},
		{image(`"QR=="`), notBase64}, // the last character has unused bits
		{image(`"data:image/png;base64,CANARY=="`), "image: must be base64 alone: remove all up to the first comma"},
		{image(`"` + base64.StdEncoding.EncodeToString(make([]byte, 1<<20+1)) + `"`), "image: must be at most 1048576 bytes (1 MiB), not 1048577"},
		{image(`"` + strings.Repeat("CANA", 1<<19+1) + `"`), "image: must not be longer than 2097152 bytes"},
		{image(`"QQ==",` + onPage + `,"proxy":"h:1","proxy_type":"http","user_agent":"u"`),
			strings.ReplaceAll("pageurl#user_agent#proxy#proxy_type#", "#", ": belongs to recaptcha_v2, recaptcha_v3, hcaptcha, turnstile, geetest or geetest_v4, not to image: remove it\n")},
		{image(`"QQ==","min_length":5,"max_length":4`), "max_length: must not be below min_length (4 of 5)"},
		{image(`"QQ==","min_length":0,"max_length":101,"charset":"hex","language":"deu","math":"true"`),
			"min_length: must be a whole number from 1 to 100, not \"0\"\nmax_length: must be a whole number from 1 to 100, not \"101\"\n" +
				"charset: must be digits, letters, digits_or_letters or digits_and_letters, not \"hex\"\nlanguage: must be a code of ISO 639-1 such as en, not \"deu\"\n" +
				"math: must be true or false, not text in quotes"},
		{image(`"QQ==","min_length":4.0`), `min_length: must be a whole number from 1 to 100, not "4.0"`},
	} {
		got, err := ReadSolve([]byte(tc.body))
		var problems Problems
		if !errors.As(err, &problems) || err.Error() != strings.TrimSuffix(tc.want, "\n") {
			t.Errorf("%.200s\ngot:\n%v\nwant:\n%s", tc.body, err, tc.want)
		}
		if !reflect.DeepEqual(got, SolveRequest{}) {
			t.Errorf("%.200s: a request beside an error: %+v", tc.body, got)
		}
	}
}

// A request never reads the daemon's environment.
func TestRequestsSeeNoEnvironment(t *testing.T) {
	t.Setenv("POOLD_TEST", canary)
	for _, text := range []string{"${POOLD_TEST}", "${POOLD_TEST:-a}", "${UNSET}", "${", "$${POOLD_TEST}", "x${POOLD_TEST}"} {
		r, err := ReadSolve([]byte(`{"type":"turnstile","sitekey":"` + text + `",` + onPage + `,"data":"` + text + `","action":"` + text + `"}`))
		if err != nil || r.Identity.Sitekey != text || r.Identity.Data != text || r.Identity.Action != text {
			t.Errorf("%s: %+v, %v", text, r, err)
		}
		_, err = ReadSolve([]byte(`{"type":"` + text + `","timeout":"` + text + `","min_score":"` + text + `","` + text + `":"` + text + `"}`))
		if err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// ReadSolve accepts the largest picture and hashes it.
func TestReadSolveAcceptsTheLargestPicture(t *testing.T) {
	body, data := largest()
	r, err := ReadSolve(body)
	sum := sha256.Sum256(data)
	if err != nil || !bytes.Equal(r.Image, data) || r.Identity.Picture.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("%d bytes, %s, %v", len(r.Image), r.Identity.Picture.SHA256, err)
	}
}

func largest() (body, data []byte) {
	data = make([]byte, MostPicture)
	_, _ = rand.NewChaCha8([32]byte{}).Read(data)
	return []byte(`{"type":"image","image":"` + base64.StdEncoding.EncodeToString(data) + `"}`), data
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
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(12*len(body)); got > most {
			t.Errorf("%s: %d bytes are allocated, more than %d", name, got, most)
		}
	}
}

func numberedFields(n int) string {
	var body strings.Builder
	for i := range n {
		fmt.Fprintf(&body, `,"%d":1`, i)
	}
	return "{" + body.String()[1:] + "}"
}

// FuzzReadSolve looks for a panic, an error of another type than Problems, and an identity with a
// field that does not belong to its type.
func FuzzReadSolve(f *testing.F) {
	for _, more := range []string{"", `,"data_s":"a"`, `,"proxy":"u:p@h:1","proxy_type":"socks5"`, `,"timeout":"5s","dedup":"identity"`, `,"a":{}`, `,"data_s":"\ud800"`} {
		f.Add([]byte(`{"type":"recaptcha_v2","sitekey":"k",` + onPage + more + `}`))
	}
	f.Add([]byte(`{"type":"image","image":"QQ==","charset":"digits","min_length":1,"max_length":2,"math":true}`))
	f.Add([]byte(`{"type":"geetest","gt":"g","challenge":"c","api_server":"a",` + onPage + `}`))
	f.Add([]byte(`{"type":"geetest_v4","captcha_id":"c",` + onPage + `}`))
	printable := regexp.MustCompile(`^[^\x00-\x1f\x7f\x{FFFD}]*$`)
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := ReadSolve(body)
		var problems Problems
		if err != nil {
			if !errors.As(err, &problems) || len(problems) == 0 || !reflect.DeepEqual(r, SolveRequest{}) {
				t.Fatalf("%+v, %T: %v", r, err, err)
			}
			for _, p := range problems {
				if p.Text == "" || strings.ContainsAny(p.Text, "\n\r\x1b") || p.Line != 0 {
					t.Fatalf("problem %q", p)
				}
			}
			return
		}
		id := r.Identity
		image := id.Type == captcha.Image
		switch {
		case !slices.Contains(captcha.SolvableTypes(), id.Type), r.Timeout < time.Second, r.Timeout > 300*time.Second,
			r.Dedup != DedupRequest && r.Dedup != DedupIdentity, (id.Proxy == "") != (id.ProxyType == ""),
			image != (r.Image != nil), image != (id.Picture.SHA256 != ""), image == (id.Pageurl != ""), !image && id.Picture != (captcha.Picture{}),
			(id.GT != "") != (id.Type == captcha.GeeTest), (id.CaptchaID != "") != (id.Type == captcha.GeeTestV4),
			(id.Sitekey != "") != slices.Contains(captcha.Types(), id.Type), !printable.MatchString(fmt.Sprint(id)), len(r.Image) > MostPicture:
			t.Fatalf("%+v", r)
		}
	})
}

// docs/solve.md names each field of a request in its table.
func TestDocsNameEveryRequestField(t *testing.T) {
	page, err := os.ReadFile("../../docs/solve.md")
	if err != nil {
		t.Fatal(err)
	}
	from := strings.Index(string(page), "\n| `type` | Fields |\n")
	if from < 0 {
		t.Fatal("docs/solve.md has no table of the fields")
	}
	table, _, _ := strings.Cut(string(page)[from:], "\n\n")
	for _, f := range RequestFields() {
		if !strings.Contains(table, "`"+f.Key+"`") {
			t.Errorf("the table of docs/solve.md has no %s", f.Key)
		}
	}
}

// SolveOf and ReadSolve accept the same identities and report the same faults.
func TestSolveOfAgreesWithReadSolve(t *testing.T) {
	const page = "https://staging.example.com/login"
	v2 := captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: "k", Pageurl: page}
	with := func(change func(id *captcha.Identity)) captcha.Identity {
		id := v2
		change(&id)
		return id
	}
	hash := strings.Repeat("0f", 32)
	for _, good := range []captcha.Identity{
		v2,
		with(func(id *captcha.Identity) {
			id.Invisible, id.DataS, id.Proxy, id.ProxyType = true, "d", "u:p@h:1", "http"
		}),
		{Type: captcha.RecaptchaV3, Sitekey: "k", Pageurl: page, MinScore: 0.3},
		{Type: captcha.Image, Picture: captcha.Picture{SHA256: hash, MinLength: 4, Math: true, Charset: captcha.Digits}},
	} {
		var image []byte
		if good.Type == captcha.Image {
			image = []byte("the caller checked it")
		}
		got, err := SolveOf(good, image)
		if want := (SolveRequest{Identity: good, Image: image, Timeout: 2 * time.Minute, Dedup: DedupRequest}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: %+v, %v", good, got, err)
		}
	}
	for _, tc := range []struct {
		id   captcha.Identity
		want string
	}{
		{captcha.Identity{}, "type: is missing"},
		{captcha.Identity{Type: captcha.HCaptcha, Pageurl: page}, "sitekey: is missing: hcaptcha needs it"},
		{with(func(id *captcha.Identity) { id.Data = "d" }), "data: belongs to turnstile, not to recaptcha_v2: remove it"},
		{with(func(id *captcha.Identity) { id.UserAgent = "a\nb" }), "user_agent: must not hold line breaks or other control characters"},
		{with(func(id *captcha.Identity) { id.DataS = "a\xff" }), "data_s: must be valid UTF-8"},
		{with(func(id *captcha.Identity) { id.Proxy, id.ProxyType = "u:CANARY@h", "http" }), "proxy: must be host:port or user:password@host:port"},
		{captcha.Identity{Type: captcha.RecaptchaV3, Sitekey: "k", Pageurl: page, MinScore: 1}, `min_score: must be a number from 0.1 to 0.9, not "1"`},
		{captcha.Identity{Type: captcha.Image, Picture: captcha.Picture{MinLength: 5, MaxLength: 4}}, "max_length: must not be below min_length (4 of 5)"},
	} {
		if _, err := SolveOf(tc.id, nil); err == nil || err.Error() != tc.want {
			t.Errorf("%+v: %v, want %s", tc.id, err, tc.want)
		}
	}
}
