package history_test

import (
	"testing"

	"poold/internal/redisdb/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
