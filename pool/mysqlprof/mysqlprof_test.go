package mysqlprof

import (
	"fmt"
	"testing"

	"github.com/connprof/connprof/internal/mariadbtest"
)

func TestMain(m *testing.M) { mariadbtest.Main(m) }

func typeName(v any) string { return fmt.Sprintf("%T", v) }
