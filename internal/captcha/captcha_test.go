package captcha

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"poold/internal/testkit"
)

// Identities that differ in one field have different IDs, even if all other fields are zero. The test
// detects a new field that the method ID does not hash.
func TestIDsDiffer(t *testing.T) {
	var full Identity
	for i, field := range leaves(reflect.ValueOf(&full).Elem()) {
		fill(t, field, i)
	}
	seen := map[ID]string{full.ID(): "all fields"}
	never := func(name string, id Identity) {
		t.Helper()
		if was, taken := seen[id.ID()]; taken {
			t.Errorf("%s: the same ID as %s", name, was)
		}
		seen[id.ID()] = name
	}
	never("no field", Identity{})
	for i := range leaves(reflect.ValueOf(&full).Elem()) {
		var one Identity
		fill(t, leaves(reflect.ValueOf(&one).Elem())[i], i)
		never(fmt.Sprint("field ", i, " alone"), one)
		less := full
		leaves(reflect.ValueOf(&less).Elem())[i].SetZero()
		never(fmt.Sprint("all but field ", i), less)
	}
	testkit.AtLeast(t, "identities that were compared", len(seen), 40)
	// Identities whose concatenated texts are equal have different IDs.
	never("a", Identity{Action: "a", Data: "d"})
	never("a border", Identity{Action: "ad"})
	never("two that came later", Identity{DataS: "a", RQData: "d"})
	never("another border", Identity{DataS: "a6:rqdata1:d"})
	never("the same text in the next field", Identity{RQData: "a"})
	odd := Identity{Type: Turnstile, Sitekey: strings.Repeat("k", 47) + "|ä",
		Pageurl: "https://ci:x@Staging.example.com:8443/a|b"}
	if id := odd.ID(); !regexp.MustCompile(`^turnstile:k{47}_:staging\.example\.com:[0-9a-f]{32}$`).MatchString(
		string(id)) || id != odd.ID() {
		t.Errorf("ID %q", id)
	}
}

// leaves returns the fields of a struct and of the structs inside it.
func leaves(v reflect.Value) (all []reflect.Value) {
	for i := range v.NumField() {
		if field := v.Field(i); field.Kind() == reflect.Struct {
			all = append(all, leaves(field)...)
		} else {
			all = append(all, field)
		}
	}
	return all
}

// fill sets the i-th field to a unique value.
func fill(t *testing.T, field reflect.Value, i int) {
	t.Helper()
	switch field.Kind() {
	case reflect.String:
		field.SetString(fmt.Sprint("text ", i))
	case reflect.Bool:
		field.SetBool(true)
	case reflect.Int:
		field.SetInt(int64(100 + i))
	case reflect.Float64:
		field.SetFloat(float64(i) / 128)
	default:
		t.Fatalf("a field of kind %v", field.Kind())
	}
}

// Tokens in stock must stay usable after an update of poold, so IDs must not change after 0.1.0.
func TestIDsStay(t *testing.T) {
	const page = "https://staging.example.com/login"
	picture := Picture{SHA256: strings.Repeat("0f", 32)}
	full := Picture{
		SHA256: picture.SHA256, Charset: DigitsAndLetters, CaseSensitive: true, MinLength: 4, MaxLength: 6,
		Phrase: true, Math: true, Language: "de", Instructions: "die rötlichen Zeichen",
	}
	for _, row := range []struct {
		identity Identity
		want     string
	}{
		{Identity{}, "3506c46968679179277ce75103996c30"},
		{Identity{Type: RecaptchaV2, Sitekey: "k", Pageurl: "https://example.com"}, "8429ac8ff3d44403f7cd24dc108e746b"},
		{Identity{Type: RecaptchaV2, Sitekey: "6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI", Pageurl: page},
			"2d46aeab850e87162a8afa2cb51cd6a0"},
		{Identity{Type: RecaptchaV2, Sitekey: "k", Pageurl: page, Invisible: true}, "5c07411f1d4565ec489b08ace56f7754"},
		{Identity{Type: RecaptchaV2, Sitekey: "k", Pageurl: page, Enterprise: true, UserAgent: "Mozilla/5.0 (X11)"},
			"2cf6b540ae7cbc125cec460ca2005440"},
		{Identity{Type: RecaptchaV3, Sitekey: "k", Pageurl: page, Action: "login", MinScore: 0.3},
			"c4fa50031fc2a7325d8f4ec795ffea46"},
		{Identity{Type: RecaptchaV3, Sitekey: "k", Pageurl: page, Enterprise: true, MinScore: 0.9},
			"6fa0f27f7781cfe0c2519e9e0550fab2"},
		{Identity{Type: HCaptcha, Sitekey: "10000000-ffff-ffff-ffff-000000000001", Pageurl: page},
			"60dee8ecf2ef72dadc2ff93bb52d72b2"},
		{Identity{Type: HCaptcha, Sitekey: "k", Pageurl: page, Invisible: true, Proxy: "user:p@ss@192.0.2.1:8080",
			ProxyType: "socks5"}, "1f4c1cdbcc7e8c928cf11be539fe40a6"},
		{Identity{Type: Turnstile, Sitekey: "1x00000000000000000000AA", Pageurl: page}, "3ff284bf3bf3532ff32ae07ba23473eb"},
		{Identity{Type: Turnstile, Sitekey: "k", Pageurl: page, Action: "a", Data: "c&d=ä"},
			"2506ca459330190f3d98baffe5fae0ec"},
		{Identity{
			Type: Turnstile, Sitekey: "k", Pageurl: page, Invisible: true, Enterprise: true, Action: "a", MinScore: 0.5,
			Data: "d", UserAgent: "u", Proxy: "p", ProxyType: "http",
		}, "811916c1a94e6422b0fa56a78c8e5361"},

		{Identity{Type: RecaptchaV2, Sitekey: "k", Pageurl: page, DataS: "s"}, "19b99f3c64979ea69c8fa3fa477e2216"},
		{Identity{Type: HCaptcha, Sitekey: "k", Pageurl: page, RQData: "r", UserAgent: "u"},
			"df80f408c08d36305c6ceea27e8f0bf3"},
		{Identity{Type: GeeTest, GT: "81dc9bdb52d04dc20036dbd8313ed055", Challenge: "d93591bdf7860e1e4ee2fca799911215",
			Pageurl: page}, "5430c19a6ec6d11be93864897f777f7c"},
		{Identity{Type: GeeTest, GT: "g", Challenge: "c", APIServer: "api.geetest.example", Pageurl: page, Proxy: "p",
			ProxyType: "http"}, "7a96222354f81582f56fb4fc5f72a982"},
		{Identity{Type: GeeTestV4, CaptchaID: "e392e1d7fd421dc63325744d5a2b9c73", Pageurl: page},
			"a0088d08b63314c7cdfdf608272ca11e"},
		{Identity{Type: Image, Picture: picture}, "65b7b81ca5afae791c5915792e94a087"},
		{Identity{Type: Image, Picture: full}, "1fc13a92a3b24a6b35bc0f10944d2894"},
	} {
		if id := row.identity.ID(); !strings.HasSuffix(string(id), row.want) || id == ID(row.want) &&
			row.identity != (Identity{}) {
			t.Errorf("%+v: the ID is %s, was %s: its stock would be abandoned", row.identity, id, row.want)
		}
	}
}

// Addresses that the URL standard takes for equal are one page; another path is another page.
func TestEqualAddressesAreOnePage(t *testing.T) {
	id := func(page string) ID { return Identity{Type: RecaptchaV2, Sitekey: "k", Pageurl: page}.ID() }
	for page, equal := range map[string]bool{
		"https://example.com": true, "https://example.com:443/": true, "HTTPS://Example.COM/": true,
		"https://example.com/a": false, "http://example.com/": false, "https://example.com:80/": false,
	} {
		testkit.Equal(t, page+" is the page", id(page) == id("https://example.com/"), equal)
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	const canary = "canary-4711"
	value := struct {
		Key   Secret
		Inner map[string]Secret
		Ptr   *Secret
	}{Key: canary, Inner: map[string]Secret{"a": canary}, Ptr: new(Secret)}
	*value.Ptr = canary
	var printed bytes.Buffer
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&printed, format+"\n", value)
		fmt.Fprintf(&printed, format+"\n", value.Key)
		fmt.Fprintf(&printed, format+"\n", *value.Ptr)
	}
	fmt.Fprintln(&printed, value, value.Key, fmt.Errorf("err %w %v", fmt.Errorf("x"), value.Key))
	text, err := json.Marshal(value)
	testkit.NoError(t, err)
	printed.Write(text)
	for _, handler := range []slog.Handler{slog.NewTextHandler(&printed, nil), slog.NewJSONHandler(&printed, nil)} {
		slog.New(handler).Info("x", "key", value.Key, "values", value)
	}
	for _, form := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary)} {
		if strings.Contains(printed.String(), form) {
			t.Errorf("a secret was printed: %s", printed.String())
		}
	}
	testkit.Equal(t, "revealed", value.Key.Reveal(), canary)
	testkit.Equal(t, "an empty secret, printed", fmt.Sprint(Secret("")), "")
}

// Site returns the vendor's identifier of the site, for each type.
func TestSiteIsTheVendorsName(t *testing.T) {
	for want, i := range map[string]Identity{
		"key": {Type: Turnstile, Sitekey: "key"}, "gt": {Type: GeeTest, GT: "gt", Challenge: "x"},
		"id": {Type: GeeTestV4, CaptchaID: "id"}, "": {Type: Image},
	} {
		testkit.Equal(t, string(i.Type), i.Site(), want)
	}
}
