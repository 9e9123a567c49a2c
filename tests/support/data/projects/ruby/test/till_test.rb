require "minitest/autorun"
require_relative "../till"
class TillTest < Minitest::Test
  def test_empty
    assert_equal 0, total([])
  end
  def test_any
    assert total([2])
  end
end
