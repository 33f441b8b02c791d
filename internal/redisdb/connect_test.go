package redisdb

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Addresses may contain passwords, so no error quotes an address.
func TestBadAddressesAreNotQuoted(t *testing.T) {
	const canary = "canary-password"
	for _, address := range []string{
		"http://:" + canary + "@127.0.0.1:1", "redis://:" + canary + "@127.0.0.1:1/x/y", "redis://:" + canary + "@[::1", canary,
		"redis://127.0.0.1:1,nonsense://:" + canary + "@127.0.0.1:2", "redis://:" + canary + "@127.0.0.1:1/3,redis://127.0.0.1:2",
	} {
		s, err := Open(Options{Addresses: address})
		if err == nil {
			_ = s.Close()
			t.Errorf("%q was accepted", address)
		} else if strings.Contains(err.Error(), canary) {
			t.Errorf("%q: the error shows the password: %v", address, err)
		}
	}
}

// The clients of sentinels and of a cluster have the options of a single server's client.
func TestAllModesHaveTheSameOptions(t *testing.T) {
	one, err := parseAddress("rediss://user:secret@127.0.0.1:1/3")
	if err != nil {
		t.Fatal(err)
	}
	tune(one)
	one.Dialer = redis.NewDialer(one)
	one.CredentialsProviderContext = new(password).credentials(one.Username)
	from, to := reflect.ValueOf(*one), reflect.ValueOf(*several(one, []string{"127.0.0.1:1"}))
	for i := range from.NumField() {
		name := from.Type().Field(i).Name
		field := to.FieldByName(name)
		if name == "Username" || name == "Password" { // CredentialsProviderContext returns both
			continue
		}
		// A client of a cluster follows redirects instead of retrying.
		if !from.Type().Field(i).IsExported() || from.Field(i).IsZero() || !field.IsValid() || name == "MaxRetries" {
			continue
		}
		same := field.IsValid() && !field.IsZero()
		if same && field.Kind() != reflect.Func {
			same = reflect.DeepEqual(from.Field(i).Interface(), field.Interface())
		}
		if !same {
			t.Errorf("%s is %v, want %v", name, field, from.Field(i))
		}
	}

	const nowhere = "redis://127.0.0.1:1"
	for _, o := range []Options{{Addresses: nowhere}, {Addresses: nowhere, SentinelMaster: "m"}} {
		db := opened(t, o)
		for _, client := range []redis.UniversalClient{db.Hot, db.Slow} {
			if got := client.(*redis.Client).Options(); got.MaxRetries != 3 || got.ReadTimeout != CallTimeout || got.ConnMaxLifetime != 30*time.Minute {
				t.Errorf("%s: %+v", db.Mode, got)
			}
		}
	}
	cluster := opened(t, Options{Addresses: nowhere + "," + nowhere})
	if got := cluster.Slow.(*redis.ClusterClient).Options(); got.MaxRedirects != 3 || got.ClusterStateReloadInterval != time.Second || got.ConnMaxLifetime != 30*time.Minute {
		t.Errorf("%s: %+v", cluster.Mode, got)
	}
}
