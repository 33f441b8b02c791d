package provider

import (
	"io"
	"net/http"
	"testing"
	"time"

	"poold/internal/captcha"
)

// Another poold says how old a token is, and no other service is believed.
func TestTokensOfAnotherPoold(t *testing.T) {
	for _, c := range []struct {
		profile, times string
		dated          bool
		since          time.Duration
	}{
		{otherPoold, `"createTime":1000,"endTime":930`, true, -70 * time.Second},
		{otherPoold, `"createTime":1000,"endTime":1012`, true, 12 * time.Second},
		{otherPoold, `"createTime":1000,"endTime":1000`, true, 0},
		{otherPoold, `"createTime":0,"endTime":930`, false, 0},
		{otherPoold, `"createTime":"1000","endTime":930`, false, 0},
		{otherPoold, `"createTime":1000000,"endTime":1`, false, 0},
		{twoCaptcha, `"createTime":1000,"endTime":930`, false, 0},
	} {
		client, _ := serve(t, Config{API: APITasks, Profile: c.profile}, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"errorId":0,"status":"ready","solution":{"token":"03AFtoken"},`+c.times+`}`)
		})
		got, err := client.Poll(t.Context(), "7", captcha.Identity{Type: captcha.Turnstile})
		if err != nil || got.Token != "03AFtoken" || got.Dated != c.dated || got.SinceSubmit != c.since {
			t.Errorf("%s with %s: %+v, %v", c.profile, c.times, got, err)
		}
	}
}
