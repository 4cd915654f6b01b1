package registry

import (
	"fmt"
	"sync"
	"testing"
)

func TestCacheIsBoundedAndKeepsWhatIsAskedFor(t *testing.T) {
	c := newCache[int, string](100)
	c.put(0, "asked for", 10)
	for i := 1; i < 1000; i++ {
		c.put(i, fmt.Sprint(i), 10)
		if v, ok := c.get(0); !ok || v != "asked for" {
			t.Fatalf("gone after %d others", i)
		}
		if c.used > c.max || len(c.entries) > 10 {
			t.Fatalf("holds %d in %d entries", c.used, len(c.entries))
		}
	}
}

func TestCachePutAgain(t *testing.T) {
	c := newCache[string, int](10)
	c.put("a", 1, 4)
	c.put("a", 2, 6)
	if v, _ := c.get("a"); v != 2 || c.used != 6 {
		t.Errorf("got %d, used %d", v, c.used)
	}
	c.put("a", 3, 11)
	if _, ok := c.get("a"); ok || c.used != 0 {
		t.Errorf("something larger than the cache is kept, used %d", c.used)
	}
}

func TestCacheForgets(t *testing.T) {
	c := newCache[string, int](10)
	c.put("a", 1, 1)
	c.forget("a")
	if _, ok := c.get("a"); ok || c.used != 0 || c.order.Len() != 0 {
		t.Error("it is still there")
	}
}

func TestCacheConcurrently(t *testing.T) {
	c := newCache[int, int](50)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 5000 {
				k := (i*7 + g) % 100
				c.put(k, k, int64(k%5+1))
				if v, ok := c.get(k); ok && v != k {
					t.Errorf("key %d has %d", k, v)
				}
				if i%9 == 0 {
					c.forget(k)
				}
			}
		})
	}
	wg.Wait()
	n := int64(0)
	for at := c.order.Front(); at != nil; at = at.Next() {
		e := at.Value.(*entry[int, int])
		n += e.weight
		if c.entries[e.key] != e || e.place != at {
			t.Fatal("the list and the map differ")
		}
	}
	if c.order.Len() != len(c.entries) {
		t.Errorf("%d in the list, %d in the map", c.order.Len(), len(c.entries))
	}
	if n != c.used {
		t.Errorf("used %d, but the entries weigh %d", c.used, n)
	}
}
