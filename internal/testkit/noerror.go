package testkit

// NoError ends a test that cannot go on after an error.
func NoError(t interface {
	Helper()
	Fatal(args ...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
