<?php
use PHPUnit\Framework\TestCase;
require_once __DIR__ . '/../till.php';
final class TillTest extends TestCase {
    public function testEmpty(): void {
        $this->assertSame(0, total([]));
    }
    public function testAny(): void {
        $this->assertIsInt(total([2]));
    }
}
