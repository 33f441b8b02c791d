package captcha

import (
	"maps"
	"testing"

	"poold/internal/testkit"
)

func TestNamedReadsObjectsAndLists(t *testing.T) {
	v3 := map[string]string{"challenge": "c1", "validate": "v2", "seccode": "v2|jordan"}
	v4 := map[string]string{
		"captcha_id": "i1", "lot_number": "l2", "pass_token": "p3", "gen_time": "1767323045", "captcha_output": "o+/5==",
	}
	for _, row := range []struct {
		kind Type
		text string
		want map[string]string
	}{
		{GeeTest, `challenge:c1,validate:v2,seccode:v2|jordan`, v3},
		{GeeTest, ` geetest_challenge: c1, geetest_validate :v2 , Geetest_Seccode:v2|jordan`, v3},
		{GeeTest, `{"geetest_challenge":"c1","geetest_validate":"v2","geetest_seccode":"v2|jordan"}`, v3},
		{GeeTest, "{\n \"challenge\": \"c1\",\n \"validate\": \"v2\", \"seccode\": \"v2|jordan\", \"userAgent\": \"U\", \"x\": [1]}\n", v3},
		{GeeTest, `{"challenge":"c1","geetest_challenge":"c1","validate":"v2","seccode":"v2|jordan"}`, v3},
		{GeeTest, `{"challenge":"c1","validate":2,"seccode":"s"}`, map[string]string{"challenge": "c1", "validate": "2", "seccode": "s"}},
		{GeeTest, `challenge:c1,validate:a:b,seccode:s`, map[string]string{"challenge": "c1", "validate": "a:b", "seccode": "s"}},
		{GeeTestV4, `{"captcha_id":"i1","lot_number":"l2","pass_token":"p3","gen_time":1767323045,"captcha_output":"o+\/5=="}`, v4},
		{GeeTestV4, `captcha_id:i1,lot_number:l2,pass_token:p3,gen_time:1767323045,captcha_output:o+/5==`, v4},

		{GeeTest, ``, nil},
		{GeeTest, `03AF`, nil},
		{GeeTest, `null`, nil},
		{GeeTest, `["challenge","validate","seccode"]`, nil},
		{GeeTest, `challenge:c1,validate:v2`, nil},
		{GeeTest, `challenge:c1,validate:v2,seccode:`, nil},
		{GeeTest, `challenge:c1,validate:v2,seccode: ,seccode:s`, nil},
		{GeeTest, `challenge:c1,challenge:c2,validate:v2,seccode:s`, nil},
		{GeeTest, `{"challenge":"c1","validate":"v2","seccode":null}`, nil},
		{GeeTest, `{"challenge":"c1","validate":"v2","seccode":{"seccode":"s"}}`, nil},
		{GeeTest, `{"challenge":"c1","validate":"v2","seccode":"  "}`, nil},
		{GeeTest, `{"challenge":"c1","geetest_challenge":"c2","validate":"v2","seccode":"s"}`, nil},
		{GeeTest, `{"challenge":"c1","validate":"v2","seccode":"s"`, nil},
		{GeeTest, `{"captcha_id":"i","lot_number":"l","pass_token":"p","gen_time":"1","captcha_output":"o"}`, nil},
		{GeeTestV4, `challenge:c1,validate:v2,seccode:v2|jordan`, nil},
		{RecaptchaV2, `challenge:c1,validate:v2,seccode:v2|jordan`, nil},
		{Image, `{"challenge":"c1","validate":"v2","seccode":"s"}`, nil},
	} {
		if got := Named(row.kind, row.text); !maps.Equal(got, row.want) || (got == nil) != (row.want == nil) {
			t.Errorf("%s %s has %v, want %v", row.kind, row.text, got, row.want)
		}
	}
	for _, kind := range SolvableTypes() {
		testkit.Equal(t, string(kind)+" has named values", HasNamed(kind), kind == GeeTest || kind == GeeTestV4)
	}
}
