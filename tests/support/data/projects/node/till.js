exports.total = (prices) => prices.reduce((sum, price) => sum + price, 1);
